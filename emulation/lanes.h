// The threads of the running block, and how they wait for each other. Private to emulation/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "emulation/cuda_emulation.h"
#include "emulation/fiber.h"

namespace foldgrad::emulation {

constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;
// Shared memory that every GPU since compute capability 8.0 gives a block that asks for it, as `launch` does.
constexpr std::size_t kMaxShared = 99 * 1024;

inline const char* kernel_name = nullptr;
inline Counts totals;

enum class State : std::uint8_t { fresh, ready, at_barrier, at_exchange, returned };

// Instead of a source: the lane asks who offered something other than 0, or only that memory is ordered. A GPU promises
// that of __syncwarp() alone, and so shuffles and ballots order nothing here either, which ThreadSanitizer sees.
constexpr int kBallot = kWarpSize, kSyncwarp = kWarpSize + 1;

struct Lane {
  dim3 index;
  State state;
  Fiber* fiber;   // once it has begun
  CallSite site;  // where it waits, and below what for
  unsigned mask;  // none at a barrier
  int source;
  std::uint64_t offered, received;
  void (*together)(void* const*);  // computes a collective; each lane offers a pointer
};

// Lets the lanes of a warp go on whose whole group has arrived. Returns false if none waits for the others of its warp.
// Throws when lanes wait for others that cannot come.
bool complete_exchanges(Lane* warp, int size);

// Lets all threads pass the barrier at which they wait. Returns false if all have returned.
bool open_barrier(Lane* lanes, int count);

// Returns the running thread, marked as being in this call. Throws outside of a kernel.
Lane& calling_lane(const CallSite& site, unsigned mask);

// Returns the running thread's place in its block.
int thread_number();

// Returns the offset in shared memory of data that one instruction reads or writes. Throws when the data do not lie
// there as a whole or are not aligned to their size.
std::size_t shared_offset(const CallSite& site, const void* data, std::size_t bytes);

// Returns true if an asynchronous copy is carried out as soon as it is legal: always with ascending threads, never with
// descending ones (then as late as possible), at random with shuffled ones.
bool copies_at_once();
// Is called at the beginning of a block of `count` threads.
void forget_copies(int count);
// Is called at its end. Throws when a thread has returned without waiting for its copies.
void check_copies(const Lane* lanes, int count);

// These are called at the beginning and end of a block, for what global_memory.h counts.
void forget_accesses(int count);
void count_accesses(const Lane* lanes, int threads);
// These do likewise for what bank_conflicts.h counts.
void forget_shared_accesses(int count);
void count_shared_accesses(int threads);

// Makes everything before, also on the host, happen before everything after: at the ends of a block and its barriers.
void synchronize_block(Lane* lanes, int count);

std::string describe(const dim3& d);
std::string place_of(const CallSite& site);   // "FILE:LINE"
std::string describe_call(const Lane& lane);  // the call in which it waits
// Returns "emulation: kernel 'NAME', block (x, y, z)" of what is running.
std::string running_block();
std::runtime_error fault(const Lane& lane, const std::string& what);

}  // namespace foldgrad::emulation
