#include "engine/cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/check.h"
#include "engine/cpu/blocked_signals.h"
#include "engine/cpu/support.h"
#include "engine/cpu/write.h"

namespace foldgrad {
namespace {

// The number of polls before a thread sleeps. The caller polls for 0.1 to 0.2 ms on x86; after that, a helper that has
// lost its processor can run on the caller's. Helpers poll longer, since only the caller computes until they have woken
// up: with 2000 polls, beam search on one sentence takes a tenth longer, because of the gaps between its loops.
constexpr int kLooks = 2000, kLooksOfHelper = 8000;
constexpr std::size_t kCacheLine = 64;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// The processors that this process could use when it started. Later, a thread may be bound to one of them.
struct Processors {
  cpu_set_t mask;
  int count;

  Processors() {
    const bool known = sched_getaffinity(getpid(), sizeof mask, &mask) == 0;  // fails above 1024 processors
    count = known ? CPU_COUNT(&mask) : 0;
    // If $OMP_PROC_BIND is set, libgomp (which oneDNN needs) binds the first thread to one processor before main().
    if (std::getenv("OMP_PROC_BIND") && count == 1) {
      std::memset(&mask, 0xff, sizeof mask);  // the system removes processors that are not allowed
      count = std::max(1, int(std::thread::hardware_concurrency()));
    }
  }
  void give_to_this_thread() const {
    if (count > 0) sched_setaffinity(0, sizeof mask, &mask);
  }
};

const Processors& processors() {
  static const Processors all;
  return all;
}
[[maybe_unused]] const Processors& at_the_start = processors();

int processor_count() {
  const int all = processors().count > 0 ? processors().count : std::max(1, int(std::thread::hardware_concurrency()));
  static const int quota = processor_quota();  // more threads would use up the quota, and then all would have to wait
  return std::min(all, quota);
}

int default_threads() {
  static const int threads = [] {
    const char* variable = std::getenv("OMP_NUM_THREADS");
    const int wanted = variable ? std::atoi(variable) : 0;
    return wanted >= 1 ? std::min(wanted, 1024) : processor_count();  // --threads has the same limit
  }();
  return threads;
}

// The remaining pieces [first, end) of one thread's share, packed into one word.
class alignas(kCacheLine) Share {
 public:
  void deal(std::int64_t first, std::int64_t end) { word_.store(word(first, end), std::memory_order_release); }
  // Both functions return -1 if no piece is left.
  std::int64_t take_first() {
    return take([](std::uint64_t first, std::uint64_t end) { return std::pair(first, word(first + 1, end)); });
  }
  std::int64_t take_last() {
    return take([](std::uint64_t first, std::uint64_t end) { return std::pair(end - 1, word(first, end - 1)); });
  }

 private:
  static std::uint64_t word(std::uint64_t first, std::uint64_t end) { return first << 32 | end; }
  template <class Choose>
  std::int64_t take(const Choose& choose) {
    std::uint64_t old = word_.load(std::memory_order_acquire);
    while (old >> 32 < std::uint32_t(old)) {
      const auto [piece, rest] = choose(old >> 32, std::uint32_t(old));
      if (word_.compare_exchange_weak(old, rest, std::memory_order_acq_rel)) return std::int64_t(piece);
    }
    return -1;
  }

  std::atomic<std::uint64_t> word_{0};
};

// The helpers of one calling thread.
class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();

  int threads() const { return int(shares_.size()); }
  void run(std::int64_t pieces, const Body& body);

 private:
  void help(int self);
  void work(int self);
  void run_piece(std::int64_t piece);
  // Returns when the value is no longer `old`. Sleeps after polling `looks` times.
  void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old, int looks) const;

  std::vector<Share> shares_;  // the first one is the caller's
  std::vector<std::thread> helpers_;
  const bool spins_;
  std::atomic<bool> stopped_ = false;
  const Body* body_ = nullptr;
  std::mutex failing_;
  std::exception_ptr failure_;  // thrown by piece failed_
  alignas(kCacheLine) std::atomic<std::int64_t> failed_ = INT64_MAX;
  alignas(kCacheLine) std::atomic<std::uint32_t> calls_ = 0;    // changes when helpers have something to do
  alignas(kCacheLine) std::atomic<std::uint32_t> pending_ = 0;  // pieces of this call that have not ended
};

thread_local int chosen_threads = 0;  // 0 means the default
thread_local bool in_piece = false;

// If there are more threads than processors, a spinning thread would take the processor from one that has work.
Pool::Pool(int threads) : shares_(std::size_t(threads)), spins_(threads <= processor_count()) {
  const BlockedSignals blocked;  // new threads inherit the signal mask
  try {
    for (int self = 1; self < threads; ++self) helpers_.emplace_back([this, self] { help(self); });
  } catch (const std::system_error&) {  // the other threads do the work of the missing helpers
  }
}

Pool::~Pool() {
  stopped_ = true;
  calls_.fetch_add(1);
  calls_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Pool::await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old, int looks) const {
  for (int look = 0; spins_ && look < looks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  value.wait(old);
}

void Pool::help(int self) {
  processors().give_to_this_thread();
  in_piece = true;
  for (std::uint32_t seen = 0;;) {
    await_change(calls_, seen, kLooksOfHelper);
    seen = calls_.load(std::memory_order_acquire);
    if (stopped_) return;
    work(self);
  }
}

void Pool::work(int self) {
  std::uint32_t done = 0;
  std::int64_t piece;
  for (; (piece = shares_[std::size_t(self)].take_first()) >= 0; ++done) run_piece(piece);
  for (int i = 1; i < threads(); ++i)
    for (; (piece = shares_[std::size_t((self + i) % threads())].take_last()) >= 0; ++done) run_piece(piece);
  finish_writes();
  // The call cannot have ended before this line. After this line, the next call may have begun.
  if (done > 0 && pending_.fetch_sub(done) == done) pending_.notify_one();
}

void Pool::run_piece(std::int64_t piece) {
  if (piece > failed_.load(std::memory_order_relaxed)) return;
  try {
    (*body_)(piece);
  } catch (...) {
    const std::lock_guard lock(failing_);
    if (piece > failed_.load(std::memory_order_relaxed)) return;
    failed_.store(piece, std::memory_order_relaxed);
    failure_ = std::current_exception();
  }
}

void Pool::run(std::int64_t pieces, const Body& body) {
  body_ = &body;
  pending_.store(std::uint32_t(pieces), std::memory_order_relaxed);
  for (int i = 0; i < threads(); ++i)
    shares_[std::size_t(i)].deal(pieces * i / threads(), pieces * (i + 1) / threads());
  calls_.fetch_add(1);
  calls_.notify_all();
  in_piece = true;
  work(0);
  in_piece = false;
  while (const std::uint32_t left = pending_.load(std::memory_order_acquire)) await_change(pending_, left, kLooks);
  if (!failure_) return;
  failed_.store(INT64_MAX, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::atomic<int> forks = 0;  // number of forks by this process and its ancestors

// Returns the calling thread's pool. If that pool was made before a fork, its threads do not exist in this process, so
// the memory of the pool is leaked.
Pool& pool_of_this_thread() {
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  thread_local std::unique_ptr<Pool> pool;
  thread_local int made_after = 0;
  if (made_after != forks) static_cast<void>(pool.release());
  if (!pool || pool->threads() != threads()) {
    pool.reset();
    pool = std::make_unique<Pool>(threads());
    made_after = forks;
  }
  return *pool;
}

}  // namespace

int threads() {
  if (in_piece) return 1;
  return chosen_threads > 0 ? chosen_threads : default_threads();
}

void set_threads(int n) {
  FOLDGRAD_CHECK(n >= 1, "threads: the number of threads must be at least 1, got {}", n);
  chosen_threads = n;
}

void parallel(std::int64_t pieces, Body body) {
  FOLDGRAD_CHECK(pieces <= INT_MAX, "parallel: a loop must have fewer than 2^31 pieces, got {}", pieces);
  if (pieces <= 1 || threads() == 1) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) body(piece);
    return finish_writes();
  }
  pool_of_this_thread().run(pieces, body);
}

}  // namespace foldgrad
