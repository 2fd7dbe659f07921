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
// The shared memory, in bytes, that a block can get on every GPU since compute capability 8.0. The launch must opt in,
// as ours do.
constexpr std::size_t kMaxShared = 99 * 1024;

inline const char* kernel_name = nullptr;
inline Counts totals;

enum class State : std::uint8_t { fresh, ready, at_barrier, at_exchange, returned };

// Values of `source` for calls that have no source lane. CUDA guarantees memory order for __syncwarp(), but not for
// shuffles and ballots. So the emulated ones do not order memory either, and ThreadSanitizer reports code that relies
// on such an order.
constexpr int kBallot = kWarpSize, kSyncwarp = kWarpSize + 1;

struct Lane {
  dim3 index;
  State state;
  Fiber* fiber;   // set when the lane begins
  CallSite site;  // the call in which the lane waits; the call's arguments follow
  unsigned mask;  // unused at a barrier
  int source;
  std::uint64_t offered, received;
  void (*together)(void* const*);  // computes a collective from one pointer per lane
};

// Completes every exchange for which all lanes of the mask have arrived, so that these lanes can run again. Returns
// false if no lane of the warp waits in an exchange. Throws if a lane waits for lanes that can no longer arrive.
bool complete_exchanges(Lane* warp, int size);

// Opens the barrier at which all threads wait. Returns false if all threads have returned.
bool open_barrier(Lane* lanes, int count);

// Records the call that the running thread makes, and returns the thread's lane. Throws if no kernel is running.
Lane& calling_lane(const CallSite& site, unsigned mask);

// Returns the running thread's index in its block.
int thread_number();

// Returns the offset of an instruction's data in shared memory. Throws unless the data are entirely in shared memory
// and aligned to their size.
std::size_t shared_offset(const CallSite& site, const void* data, std::size_t bytes);

// Returns true if an asynchronous copy should happen at once, and false if it should happen as late as possible.
// The result is true if threads run in ascending order, false if they run in descending order, and random if they run
// in shuffled order.
bool copies_at_once();
// The scheduler calls this at the beginning of a block of `count` threads.
void forget_copies(int count);
// The scheduler calls this at the end of a block. Throws if a thread has returned without waiting for its copies.
void check_copies(const Lane* lanes, int count);

// The scheduler calls these at the beginning and end of a block, to count accesses (global_memory.h, bank_conflicts.h).
void forget_accesses(int count);
void count_accesses(const Lane* lanes, int threads);
void forget_shared_accesses(int count);
void count_shared_accesses(int threads);

// Tells ThreadSanitizer that everything before this call, even on the host, happens before everything after it. The
// scheduler calls this at the beginning and at the end of a block, and at its barriers.
void synchronize_block(Lane* lanes, int count);

std::string describe(const dim3& d);
std::string place_of(const CallSite& site);   // "FILE:LINE"
std::string describe_call(const Lane& lane);  // describes the call in which the lane waits
// Returns "emulation: kernel 'NAME', block (x, y, z)" for the running block.
std::string running_block();
std::runtime_error fault(const Lane& lane, const std::string& what);

}  // namespace foldgrad::emulation
