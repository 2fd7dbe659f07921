#include "emulation/lanes.h"

#include <cstdio>
#include <cstring>

namespace foldgrad::emulation {
namespace {

bool same_text(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

bool same_site(const CallSite& a, const CallSite& b) {
  return a.line == b.line && same_text(a.file, b.file) && same_text(a.function, b.function);
}

std::string whereabouts(const Lane& lane) {
  return lane.state == State::returned ? "has returned" : "waits in " + describe_call(lane);
}

// Returns the lanes that wait in the same call with the same mask.
unsigned arrived_with(const Lane& lane, const Lane* warp, int size) {
  unsigned group = 0;
  for (int i = 0; i < size; ++i)
    if (warp[i].state == State::at_exchange && warp[i].mask == lane.mask && same_site(warp[i].site, lane.site))
      group |= 1u << i;
  return group;
}

void finish_exchange(Lane* warp, unsigned group) {
  const Lane& first = warp[__builtin_ctz(group)];  // all lanes of the group are in the same call
  const bool orders = first.source == kSyncwarp;
  if (first.together) {
    void* brought[kWarpSize];
    for (int i = 0; i < kWarpSize; ++i) brought[i] = reinterpret_cast<void*>(warp[i].offered);
    first.together(brought);
  }
  unsigned ballot = 0;
  for (unsigned rest = group; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    if (warp[i].offered) ballot |= 1u << i;
    if (orders) warp[i].fiber->release(warp);
  }
  for (unsigned rest = group; rest; rest &= rest - 1) {
    Lane& lane = warp[__builtin_ctz(rest)];
    lane.received = lane.source < kWarpSize ? warp[lane.source].offered : ballot;
    lane.state = State::ready;
    if (orders) lane.fiber->acquire(warp);
  }
}

[[noreturn]] void fail_exchange(const Lane& lane, const Lane* warp, int size) {
  const int missing = __builtin_ctz(lane.mask & ~arrived_with(lane, warp, size));
  throw fault(lane, describe_call(lane) + " waits for lane " + std::to_string(missing) + ", which " +
                        (missing < size ? whereabouts(warp[missing]) : "the block does not have"));
}

}  // namespace

std::string describe(const dim3& d) {
  return std::string("(") + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

std::string place_of(const CallSite& site) { return std::string(site.file) + ":" + std::to_string(site.line); }

std::string describe_call(const Lane& lane) {
  char mask[32] = "";
  if (lane.mask) std::snprintf(mask, sizeof mask, " with mask 0x%08x", lane.mask);
  return std::string(lane.site.function) + mask + " at " + place_of(lane.site);
}

std::string running_block() {
  return std::string("emulation: kernel '") + kernel_name + "', block " + describe(position.block);
}

std::runtime_error fault(const Lane& lane, const std::string& what) {
  return std::runtime_error(running_block() + ", thread " + describe(lane.index) + ": " + what);
}

FOLDGRAD_UNSEEN bool complete_exchanges(Lane* warp, int size) {
  const Lane* blocked = nullptr;
  bool completed = false;
  for (int i = 0; i < size; ++i) {
    if (warp[i].state != State::at_exchange) continue;
    const unsigned group = arrived_with(warp[i], warp, size);
    if (warp[i].mask & ~group) {
      if (!blocked) blocked = &warp[i];
      continue;
    }
    finish_exchange(warp, group);
    completed = true;
  }
  if (blocked && !completed) fail_exchange(*blocked, warp, size);
  return completed;
}

FOLDGRAD_UNSEEN bool open_barrier(Lane* lanes, int count) {
  const Lane* waiting = nullptr;
  for (int i = 0; i < count && !waiting; ++i)
    if (lanes[i].state != State::returned) waiting = &lanes[i];
  if (!waiting) return false;
  for (int i = 0; i < count; ++i)
    if (lanes[i].state == State::returned || !same_site(lanes[i].site, waiting->site))
      throw fault(*waiting, describe_call(*waiting) + " waits for thread " + describe(lanes[i].index) + ", which " +
                                whereabouts(lanes[i]));
  synchronize_block(lanes, count);
  for (int i = 0; i < count; ++i) lanes[i].state = State::ready;
  return true;
}

FOLDGRAD_UNSEEN std::size_t shared_offset(const CallSite& site, const void* data, std::size_t bytes) {
  const Lane& lane = calling_lane(site, 0);
  const auto first = reinterpret_cast<std::uintptr_t>(position.shared), at = reinterpret_cast<std::uintptr_t>(data);
  if (at < first || at - first > position.shared_bytes || position.shared_bytes - (at - first) < bytes)
    throw fault(lane, describe_call(lane) + " does not stay within the " + std::to_string(position.shared_bytes) +
                          " bytes of shared memory");
  if ((at - first) % bytes != 0)
    throw fault(lane, describe_call(lane) + " needs an offset that is a multiple of " + std::to_string(bytes) +
                          " bytes, got byte " + std::to_string(at - first) + " of shared memory");
  return at - first;
}

FOLDGRAD_UNSEEN void synchronize_block(Lane* lanes, int count) {
  if (!kThreadSanitizer) return;
  host_release(&position);
  for (int i = 0; i < count; ++i) lanes[i].fiber->release(&position);
  for (int i = 0; i < count; ++i) lanes[i].fiber->acquire(&position);
  host_acquire(&position);
}

}  // namespace foldgrad::emulation
