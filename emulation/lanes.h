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
// The shared memory that every GPU since compute capability 8.0 gives to a block on request; `launch` requests it.
constexpr std::size_t kMaxShared = 99 * 1024;

inline const char* kernel_name = nullptr;
inline Counts totals;

enum class State : std::uint8_t { fresh, ready, at_barrier, at_exchange, returned };

// Values of `source` for calls without a source lane: a ballot, and __syncwarp(), which only orders memory. CUDA
// promises an order only for __syncwarp(), so shuffles and ballots order nothing here either; ThreadSanitizer sees
// that.
constexpr int kBallot = kWarpSize, kSyncwarp = kWarpSize + 1;

struct Lane {
  dim3 index;
  State state;
  Fiber* fiber;   // set once the lane has begun
  CallSite site;  // the call in which it waits; the next members are the call's arguments
  unsigned mask;  // unused at a barrier
  int source;
  std::uint64_t offered, received;
  void (*together)(void* const*);  // computes a collective from one pointer per lane
};

// Resumes the groups of a warp's lanes that are complete. Returns false if no lane waits for others of its warp. Throws
// if lanes wait for others that can no longer come.
bool complete_exchanges(Lane* warp, int size);

// Opens the barrier at which all threads wait. Returns false if all have returned.
bool open_barrier(Lane* lanes, int count);

// Returns the running thread and notes the call that it is in. Throws outside of a kernel.
Lane& calling_lane(const CallSite& site, unsigned mask);

// Returns the running thread's index in its block.
int thread_number();

// Returns the offset in shared memory of an instruction's data. Throws unless the data are completely in shared memory
// and aligned to their size.
std::size_t shared_offset(const CallSite& site, const void* data, std::size_t bytes);

// Returns true if an asynchronous copy should happen as soon as it is legal. With ascending threads that is always so;
// with descending threads copies happen as late as possible; with shuffled threads this is random.
bool copies_at_once();
// The scheduler calls this at the beginning of a block of `count` threads.
void forget_copies(int count);
// The scheduler calls this at the end of a block. Throws if a thread has returned without waiting for its copies.
void check_copies(const Lane* lanes, int count);

// The scheduler calls these at the beginning and the end of a block, for the counts of global_memory.h.
void forget_accesses(int count);
void count_accesses(const Lane* lanes, int threads);
// The same for the counts of bank_conflicts.h.
void forget_shared_accesses(int count);
void count_shared_accesses(int threads);

// Tells ThreadSanitizer that everything before, also on the host, happens before everything after: at the beginning and
// the end of a block, and at its barriers.
void synchronize_block(Lane* lanes, int count);

std::string describe(const dim3& d);
std::string place_of(const CallSite& site);   // "FILE:LINE"
std::string describe_call(const Lane& lane);  // the call in which the lane waits
// Returns "emulation: kernel 'NAME', block (x, y, z)" for the running block.
std::string running_block();
std::runtime_error fault(const Lane& lane, const std::string& what);

}  // namespace foldgrad::emulation
