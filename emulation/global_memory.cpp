#include "emulation/global_memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "emulation/lanes.h"

namespace foldgrad::emulation {
namespace {

constexpr std::uintptr_t kSectorBytes = 32;

struct Access {
  CallSite site;
  std::uintptr_t begin, end;  // equal if the lane does not take part
};

bool counting = false;
GlobalAccesses counted;
std::vector<Access> accesses[kMaxThreads];  // of each thread of the running block

// Counts the n-th access of a warp.
void count(const Lane* lanes, const std::vector<Access>* warp, int size, std::size_t n) {
  const Access* first = nullptr;
  std::vector<std::uintptr_t> sectors;
  std::uintptr_t lowest = ~std::uintptr_t(0), bytes = 0;
  for (int i = 0; i < size; ++i) {
    if (n >= warp[i].size()) continue;
    const Access& access = warp[i][n];
    if (!first) first = &access;
    if (access.site.line != first->site.line || std::strcmp(access.site.file, first->site.file) != 0)
      throw fault(lanes[i], std::string(access.site.function) + " at " + place_of(access.site) +
                                ", but another lane of the warp calls " + first->site.function + " at " +
                                place_of(first->site) + ": all lanes must make the same accesses, even unwanted ones");
    if (access.begin == access.end) continue;
    lowest = std::min(lowest, access.begin);
    bytes += access.end - access.begin;
    for (std::uintptr_t s = access.begin / kSectorBytes; s <= (access.end - 1) / kSectorBytes; ++s)
      sectors.push_back(s);
  }
  if (bytes == 0) return;
  std::sort(sectors.begin(), sectors.end());
  counted.bytes += std::int64_t(bytes);
  counted.sectors += std::unique(sectors.begin(), sectors.end()) - sectors.begin();
  counted.least += std::int64_t((lowest % kSectorBytes + bytes + kSectorBytes - 1) / kSectorBytes);
}

}  // namespace

CountAccesses::CountAccesses() : Watch(counting) { counted = {}; }
GlobalAccesses CountAccesses::result() const { return counted; }

void check_alignment(const CallSite& site, const void* at, std::size_t bytes, bool wanted) {
  const Lane& lane = calling_lane(site, 0);
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(at) % bytes;
  if (wanted && past != 0)
    throw fault(lane, describe_call(lane) + " needs an address at a multiple of " + std::to_string(bytes) +
                          " bytes, got one " + std::to_string(past) + " past it");
}

void global_access(const CallSite& site, const void* at, std::size_t bytes, bool wanted) {
  check_alignment(site, at, bytes, wanted);
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (counting) accesses[thread_number()].push_back({site, begin, wanted ? begin + bytes : begin});
}

void forget_accesses(int count) {
  for (int i = 0; i < count; ++i) accesses[i].clear();
}

void count_accesses(const Lane* lanes, int threads) {
  for (int w = 0; w < threads && counting; w += kWarpSize) {
    const int size = std::min(kWarpSize, threads - w);
    std::size_t most = 0;
    for (int i = w; i < w + size; ++i) most = std::max(most, accesses[i].size());
    for (std::size_t n = 0; n < most; ++n) count(lanes + w, accesses + w, size, n);
  }
}

}  // namespace foldgrad::emulation
