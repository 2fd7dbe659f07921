// Chooses the thread that runs next. All code here runs on one host thread: fibers never run at the same time.
#include <algorithm>
#include <atomic>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#include "emulation/device_memory.h"
#include "emulation/lanes.h"
#include "emulation/shared_memory.h"

namespace foldgrad::emulation {
namespace {

struct Unwound {};  // thrown in waiting threads, through the kernel, after another thread has failed

bool recording = false;
std::vector<Launch> recorded;

Lane lanes[kMaxThreads];
int lane_count = 0;
Lane* current = nullptr;
void (*thread_body)(const void*) = nullptr;
const void* thread_context = nullptr;

// Under ThreadSanitizer lane i always has fiber i, since lanes that shared a stack would be reported as races.
Fiber fibers[kMaxThreads];
Fiber* idle[kMaxThreads];
int idle_count = 0, made = 0;

// The lanes of a warp that can run, in the order of their turns.
struct Turns {
  Lane* lanes[kWarpSize];
  int count = 0, next = 0;
} turns;

Order order = Order::ascending;
unsigned seed = 1;
std::mt19937 random_source;  // used by the host
std::uint32_t coin = 0;      // used by the threads; hidden from sanitizers
std::exception_ptr kernel_failure;
bool failed = false;  // true if kernel_failure is set
bool unwinding = false;
std::atomic_flag busy = ATOMIC_FLAG_INIT;

void arrange(auto first, auto last) {  // puts an ascending range into the chosen order
  if (order == Order::descending) std::reverse(first, last);
  if (order == Order::shuffled) std::shuffle(first, last, random_source);
}

FOLDGRAD_UNSEEN void take_turn(Lane* lane) {
  current = lane;
  position.thread = &lane->index;
  lane->state = State::ready;
}

FOLDGRAD_UNSEEN void run_thread() {
  try {
    thread_body(thread_context);
  } catch (const Unwound&) {
  } catch (...) {
    if (!unwinding) {
      kernel_failure = std::current_exception();
      failed = true;
    }
  }
  current->state = State::returned;
}

// Reuses a returned thread's fiber for the next thread. So a warp without barriers needs one switch instead of 32.
FOLDGRAD_UNSEEN bool hand_over() {
  if (kThreadSanitizer || unwinding || failed || turns.next == turns.count) return false;
  Lane* next = turns.lanes[turns.next];
  if (next->state != State::fresh) return false;
  ++turns.next;
  next->fiber = current->fiber;
  take_turn(next);
  return true;
}

FOLDGRAD_UNSEEN void fiber_main() {
  for (;;) {
    run_thread();
    if (!hand_over()) current->fiber->suspend();
  }
}

FOLDGRAD_UNSEEN Fiber* free_fiber() {
  if (idle_count > 0) return idle[--idle_count];
  fibers[made].prepare(fiber_main);
  return &fibers[made++];
}

FOLDGRAD_UNSEEN void resume(Lane* lane) {
  if (kThreadSanitizer) lane->fiber->prepare(fiber_main);
  if (!lane->fiber) lane->fiber = free_fiber();
  take_turn(lane);
  ++totals.switches;
  lane->fiber->resume();
  // `current` may now be a later lane that took over the fiber.
  if (current->state == State::returned && !kThreadSanitizer) idle[idle_count++] = current->fiber;
}

FOLDGRAD_UNSEEN void wait(Lane& lane, State state) {
  if (!unwinding) {
    lane.state = state;
    lane.fiber->suspend();
  }
  if (unwinding) throw Unwound();
}

[[noreturn]] FOLDGRAD_UNSEEN void fail_with_thread() {
  current->fiber->release(&kernel_failure);
  host_acquire(&kernel_failure);
  failed = false;
  std::rethrow_exception(std::exchange(kernel_failure, nullptr));
}

// Runs one warp until each of its threads waits at a barrier or has returned; other warps wait. If warps took turns, a
// missing barrier between a read and a write would usually go unnoticed.
FOLDGRAD_UNSEEN void run_warp(Lane* warp, int size) {
  do {
    turns.count = turns.next = 0;
    for (int i = 0; i < size; ++i)
      if (warp[i].state == State::fresh || warp[i].state == State::ready) turns.lanes[turns.count++] = &warp[i];
    arrange(turns.lanes, turns.lanes + turns.count);
    while (turns.next < turns.count) {
      resume(turns.lanes[turns.next++]);
      if (failed) fail_with_thread();
    }
  } while (complete_exchanges(warp, size));
}

FOLDGRAD_UNSEEN void run_block() {
  for (int i = 0; i < lane_count; ++i) {
    lanes[i].state = State::fresh;
    if (!kThreadSanitizer) lanes[i].fiber = nullptr;
  }
  forget_copies(lane_count);
  forget_accesses(lane_count);
  forget_shared_accesses(lane_count);
  synchronize_block(lanes, lane_count);
  int warps[kMaxThreads / kWarpSize];
  const int warp_count = (lane_count + kWarpSize - 1) / kWarpSize;
  do {
    for (int w = 0; w < warp_count; ++w) warps[w] = w * kWarpSize;
    arrange(warps, warps + warp_count);
    for (int w = 0; w < warp_count; ++w) run_warp(&lanes[warps[w]], std::min(kWarpSize, lane_count - warps[w]));
  } while (open_barrier(lanes, lane_count));
  synchronize_block(lanes, lane_count);
  check_copies(lanes, lane_count);
  count_accesses(lanes, lane_count);
  count_shared_accesses(lane_count);
}

FOLDGRAD_UNSEEN void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes) {
  lane_count = 0;
  for (unsigned z = 0; z < block.z; ++z)
    for (unsigned y = 0; y < block.y; ++y)
      for (unsigned x = 0; x < block.x; ++x, ++lane_count) {
        lanes[lane_count].index = dim3(x, y, z);
        lanes[lane_count].fiber = kThreadSanitizer ? &fibers[lane_count] : nullptr;
      }
  position.block_dim = block;
  position.grid_dim = grid;
  SharedMemory shared(shared_bytes);
  position.shared = shared.data();
  position.shared_bytes = shared_bytes;
  std::vector<std::uint64_t> blocks(std::uint64_t(grid.x) * grid.y * grid.z);
  for (std::uint64_t b = 0; b < blocks.size(); ++b) blocks[b] = b;
  arrange(blocks.begin(), blocks.end());
  for (const std::uint64_t b : blocks) {
    position.block = dim3(unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y));
    shared.fill();
    run_block();
    shared.check_guard();
  }
}

// Unwinds the stacks of waiting threads, so that their objects are destroyed and their fibers are free again.
FOLDGRAD_UNSEEN void unwind_threads() {
  unwinding = true;
  for (int i = 0; i < lane_count; ++i)
    if (lanes[i].state != State::fresh && lanes[i].state != State::returned) resume(&lanes[i]);
  unwinding = false;
}

void check_limits(const char* name, dim3 block, std::size_t shared_bytes) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(std::string("emulation: kernel '") + name + "': " + what);
  };
  const std::uint64_t threads = std::uint64_t(block.x) * block.y * block.z;
  if (threads < 1 || threads > kMaxThreads || block.z > 64)
    fail("a block has 1 to 1024 threads, at most 64 in z, got " + describe(block));
  if (shared_bytes > kMaxShared)
    fail("a block has at most 101376 bytes of shared memory, got " + std::to_string(shared_bytes));
}

}  // namespace

OrderScope::OrderScope(Order new_order, unsigned new_seed)
    : order_before_(std::exchange(order, new_order)), seed_before_(std::exchange(seed, new_seed)) {}
OrderScope::~OrderScope() {
  order = order_before_;
  seed = seed_before_;
}

Counts counts() { return totals; }

RecordLaunches::RecordLaunches() : Watch(recording) { recorded.clear(); }
const std::vector<Launch>& RecordLaunches::all() const { return recorded; }

FOLDGRAD_UNSEEN bool copies_at_once() {
  if (order != Order::shuffled) return order == Order::ascending;
  coin = coin * 1664525u + 1013904223u;  // from Numerical Recipes; only the upper bits are random
  return coin >> 31;
}

FOLDGRAD_UNSEEN void run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, void (*thread)(const void*),
                         const void* context) {
  check_limits(name, block, shared_bytes);
  if (busy.test_and_set())
    throw std::runtime_error(std::string("emulation: kernel '") + name +
                             "' launched while another runs: launch from one host thread at a time, not from kernels");
  ++totals.launches;
  if (recording) recorded.push_back({name, grid, block});
  const DeviceAccess access;
  kernel_name = name;
  thread_body = thread;
  thread_context = context;
  random_source.seed(seed);
  coin = seed;
  std::exception_ptr failure;
  try {
    run_grid(grid, block, shared_bytes);
  } catch (...) {
    failure = std::current_exception();
  }
  unwind_threads();
  synchronize_block(lanes, lane_count);
  current = nullptr;
  position = Position();
  busy.clear();
  if (failure) std::rethrow_exception(failure);
}

FOLDGRAD_UNSEEN Lane& calling_lane(const CallSite& site, unsigned mask) {
  if (!current)
    throw std::runtime_error(std::string("emulation: ") + site.function + " outside of a kernel at " + place_of(site));
  current->site = site;
  current->mask = mask;
  return *current;
}

FOLDGRAD_UNSEEN int thread_number() { return int(current - lanes); }

FOLDGRAD_UNSEEN int lane_id() { return current ? thread_number() % kWarpSize : 0; }

FOLDGRAD_UNSEEN void barrier(const CallSite& site) { wait(calling_lane(site, 0), State::at_barrier); }

FOLDGRAD_UNSEEN std::uint64_t shuffle(const CallSite& site, unsigned mask, std::uint64_t value, int source) {
  Lane& lane = calling_lane(site, mask);
  if (!(mask >> lane_id() & 1u)) throw fault(lane, describe_call(lane) + " does not name its own lane");
  if (source < 0 || (source < kWarpSize && !(mask >> source & 1u)))
    throw fault(lane, describe_call(lane) + " reads lane " + std::to_string(source) + ", which is not in the mask");
  lane.source = source;
  lane.offered = value;
  lane.together = nullptr;
  wait(lane, State::at_exchange);
  return lane.received;
}

void sync_warp(const CallSite& site, unsigned mask) { shuffle(site, mask, 0, kSyncwarp); }

unsigned ballot(const CallSite& site, unsigned mask, bool predicate) {
  return unsigned(shuffle(site, mask, predicate, kBallot));
}

FOLDGRAD_UNSEEN void collective(const CallSite& site, void* brought, void (*together)(void* const*)) {
  Lane& lane = calling_lane(site, 0xffffffffu);
  lane.source = kBallot;
  lane.offered = reinterpret_cast<std::uint64_t>(brought);
  lane.together = together;
  wait(lane, State::at_exchange);
}

}  // namespace foldgrad::emulation
