// The CPU thread pool: runs the pieces of a loop on several threads.
//
//   parallel(8, [&](std::int64_t piece) { sum_block(piece); });
//
// Each thread that calls parallel() owns a few helper threads. Say it has two, so three threads share the 8 pieces:
//
//   1. The caller assigns shares of consecutive pieces: 0 and 1 to itself, 2 to 4 and 5 to 7 to its helpers.
//      Consecutive pieces touch neighbouring memory, and in the next loop over the same tensor the same thread touches
//      the same memory again, which its caches still hold.
//   2. Each thread takes the pieces of its share from the front. When its share is empty, it takes pieces from the back
//      of the others' shares.
//   3. When the caller finds no more pieces, it waits for the helpers that are still running a piece. It does not wait
//      for a helper that has not begun one: that helper may be asleep, or another program may be using its processor.
//   4. A helper without work polls for the next call for about 0.5 ms, and then sleeps until the next call.
//
// A share is one word that holds the range {begin, end} of its remaining pieces. A thread takes a piece by replacing
// the word with a compare-and-swap, which fails if another thread was faster. The word that it read may be from an
// earlier call: if a helper reads {5, 8}, loses its processor for some calls, and swaps when the share is {5, 8} again,
// then it has taken piece 5 of the newest call. This is harmless, because a helper looks up what to run only after it
// has taken a piece, and a call does not end before all pieces that were taken are done.
//
// Results do not depend on the number of threads if the work of a piece depends only on the piece's number, and the
// number of pieces depends only on shapes. A piece always runs on one thread, so give a loop at least 8 pieces, or
// pieces of 50 us each.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace foldgrad {

// A reference to a callable whose argument is the number of a piece. Unlike std::function, it never allocates.
class Body {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, Body>>>
  Body(F&& f)  // NOLINT(google-explicit-constructor): a lambda is passed as it is
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, std::int64_t piece) { (*static_cast<std::remove_reference_t<F>*>(object))(piece); }) {}
  void operator()(std::int64_t piece) const { call_(object_, piece); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

// Returns the number of threads that this thread's next parallel() uses: the last number that the thread passed to
// set_threads(), otherwise the first number in $OMP_NUM_THREADS, otherwise the number of processors that the process
// may use. Returns 1 inside a piece.
int threads();
// Sets the number of threads that the calling thread uses. Throws std::invalid_argument unless n is at least 1.
void set_threads(int n);

// Calls body(piece) once for each piece from 0 to pieces - 1, on any thread and in any order, and returns when all
// calls have ended. Inside a piece, or if there is only one thread, the call is a plain loop. If pieces throw, rethrows
// the exception of the first of them, as a loop would; later pieces may or may not have run. Throws
// std::invalid_argument for 2^31 pieces or more.
//
// When parallel() returns, all stores that bypass the caches (engine/cpu/write.h) are complete.
//
// Helpers block all signals, may run on every processor of the process even if the caller is bound to one, and end with
// the calling thread. After fork(), the child process starts its own helpers. If a helper cannot start, the
// other threads do its work.
void parallel(std::int64_t pieces, Body body);

// Loops over fewer elements than this run as one piece: waking the helpers costs more than they save. Tuned on 2 cores
// of a Zen 5.
constexpr std::int64_t kParallelElements = 32768;

// Cuts n items of `elements` elements each into pieces, and calls body(begin, end) for each piece. Fewer than
// kParallelElements elements make one piece. Otherwise a piece has 1/64 of the items, but at least 4,096 and at most
// 65,536 elements.
template <class F>
void parallel_ranges(std::int64_t n, std::int64_t elements, const F& body) {
  elements = std::max<std::int64_t>(elements, 1);
  const std::int64_t size = n * elements < kParallelElements
                                ? std::max<std::int64_t>(n, 1)
                                : std::clamp<std::int64_t>(n / 64, std::max<std::int64_t>(4096 / elements, 1),
                                                           std::max<std::int64_t>(65536 / elements, 1));
  parallel((n + size - 1) / size, [&](std::int64_t piece) { body(piece * size, std::min(n, (piece + 1) * size)); });
}

}  // namespace foldgrad
