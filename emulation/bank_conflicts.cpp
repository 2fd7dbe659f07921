#include "emulation/bank_conflicts.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "emulation/lanes.h"

namespace foldgrad::emulation {
namespace {

constexpr std::size_t kWordBytes = 4;
constexpr int kBanks = 32;

struct SharedAccess {
  CallSite site;
  std::size_t offset, bytes;
};

bool finding = false;
int worst_ways = 0;
std::string worst_place;
std::vector<SharedAccess> shared_accesses[kMaxThreads];  // of each thread of the running block

using Place = std::pair<std::string, int>;
struct Together {
  CallSite site;
  std::size_t bytes;
  std::vector<std::pair<int, std::size_t>> words;  // a lane and a word that it accesses
};

// Groups the accesses of a warp by source location and by n: a group holds the n-th access of each lane at that
// location.
std::map<std::pair<Place, int>, Together> accesses_of_warp(const std::vector<SharedAccess>* warp, int size) {
  std::map<std::pair<Place, int>, Together> all;
  for (int lane = 0; lane < size; ++lane) {
    std::map<Place, int> taken;
    for (const SharedAccess& a : warp[lane]) {
      const Place place(a.site.file, a.site.line);
      Together& together = all[{place, taken[place]++}];
      together.site = a.site;
      together.bytes = a.bytes;
      for (std::size_t byte = 0; byte < a.bytes; byte += kWordBytes)
        together.words.push_back({lane, (a.offset + byte) / kWordBytes});
    }
  }
  return all;
}

// Returns the largest number of different words in one bank.
int ways_of(const Together& access) {
  const int lanes_at_once = int(kWarpSize * kWordBytes / access.bytes);
  // The words in each bank, for each group of lanes that access memory together.
  std::set<std::size_t> banks[kWarpSize][kBanks];
  int most = 0;
  for (const auto& [lane, word] : access.words) {
    std::set<std::size_t>& bank = banks[lane / lanes_at_once][word % kBanks];
    bank.insert(word);
    most = std::max(most, int(bank.size()));
  }
  return most;
}

}  // namespace

WorstBankConflict::WorstBankConflict() : Watch(finding) {
  worst_ways = 0;
  worst_place.clear();
}

int WorstBankConflict::ways() const { return worst_ways; }
const std::string& WorstBankConflict::where() const { return worst_place; }

void shared_access(const CallSite& site, const void* at, std::size_t bytes) {
  const std::size_t offset = shared_offset(site, at, bytes);
  if (finding) shared_accesses[thread_number()].push_back({site, offset, bytes});
}

void forget_shared_accesses(int count) {
  for (int i = 0; i < count; ++i) shared_accesses[i].clear();
}

void count_shared_accesses(int threads) {
  for (int w = 0; w < threads && finding; w += kWarpSize)
    for (const auto& [place, access] : accesses_of_warp(shared_accesses + w, std::min(kWarpSize, threads - w))) {
      const int ways = ways_of(access);
      if (ways <= worst_ways) continue;
      worst_ways = ways;
      worst_place = std::string(kernel_name) + " at " + place_of(access.site);
    }
}

}  // namespace foldgrad::emulation
