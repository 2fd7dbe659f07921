// Runs CUDA kernels on the host, without a GPU. Each CUDA thread is a fiber, suspended at barriers and shuffles.
//
// A warp runs until each of its threads waits or has returned. Then the next warp runs. Blocks run one after another.
// Tests vary the order of threads, warps and blocks: if a kernel's result depends on the order, the kernel lacks a
// barrier. The emulation is stricter than a GPU, because kernels should be readable: every thread of a block must reach
// the same __syncthreads(), and every lane of a mask must reach the same shuffle. A violation throws std::runtime_error
// with the kernel, block, thread and source line. ThreadSanitizer sees each CUDA thread as a thread, so it reports a
// missing barrier as a data race.
//
// The emulation does not detect races between blocks or wrong memory orders. It does not reproduce a GPU's timing and
// arithmetic (fast math, contraction).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace foldgrad::emulation {

// The order of blocks, of warps in a block, and of threads in a warp. `shuffled` is a fixed permutation per seed.
enum class Order { ascending, descending, shuffled };

// Sets the order for launches while the object lives.
class OrderScope {
 public:
  explicit OrderScope(Order order, unsigned seed = 1);
  ~OrderScope();
  OrderScope(const OrderScope&) = delete;

 private:
  const Order order_before_;
  const unsigned seed_before_;
};

// Totals since the start of the process. A switch passes control to a fiber; the threads of a warp that never wait
// share one switch. Bank conflicts are the passes over shared memory that ldmatrix needs beyond one per matrix.
// `products` counts the mma instructions of all warps.
struct Counts {
  std::int64_t launches = 0, switches = 0, bank_conflicts = 0, products = 0;
};
Counts counts();

// Sets a flag while the object lives. Each flag may have only one object at a time.
class Watch {
 public:
  Watch(const Watch&) = delete;

 protected:
  explicit Watch(bool& on) : on_(on) { on_ = true; }
  ~Watch() { on_ = false; }

 private:
  bool& on_;
};

struct Launch {
  std::string kernel;
  dim3 blocks, threads;
};
// Records launches while the object lives.
class RecordLaunches : Watch {
 public:
  RecordLaunches();
  const std::vector<Launch>& all() const;
};

// The running thread's special registers. Only the scheduler writes them.
struct Position {
  const dim3* thread = nullptr;
  dim3 block, block_dim, grid_dim;
  void* shared = nullptr;
  std::size_t shared_bytes = 0;
};
inline Position position;

// Returns the block's shared memory, aligned to 16 bytes. When a block begins, all bytes are 0xff, so floats are NaN.
inline void* dynamic_shared() { return position.shared; }

void run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, void (*thread)(const void*),
         const void* context);

// Calls kernel() once per thread of the grid and returns when all calls have returned. Messages contain `name`. Call
// run() from one host thread at a time, and not from a kernel. Throws std::runtime_error for the violations above, for
// writes past the end of shared memory (AddressSanitizer reports these where they happen), and for blocks that exceed a
// GPU's limits of 1024 threads (64 in z) and 99 KiB of shared memory. Rethrows exceptions that a kernel throws.
template <class Kernel>
void run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, const Kernel& kernel) {
  run(
      name, grid, block, shared_bytes, [](const void* k) { (*static_cast<const Kernel*>(k))(); }, &kernel);
}

struct CallSite {
  const char* function;
  const char* file;
  int line;
};
// Use this as the default value of a function's last parameter. It then returns the source location of the call to that
// function.
constexpr CallSite call_site(const char* function, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {function, file, line};
}

// Host versions of CUDA's functions and of the PTX instructions in engine/cuda/.

int lane_id();
void barrier(const CallSite& site);
// Waits for the lanes of `mask`. Afterwards all of them see each other's writes.
void sync_warp(const CallSite& site, unsigned mask);
// Waits for the lanes of `mask`, then returns the `value` of lane `source`, which must be in `mask`.
std::uint64_t shuffle(const CallSite& site, unsigned mask, std::uint64_t value, int source);
// Waits for the lanes of `mask`, then returns the mask of the lanes whose predicate is true.
unsigned ballot(const CallSite& site, unsigned mask, bool predicate);
// Emulates an instruction of a whole warp: waits for all 32 lanes, then calls together() once with an array of every
// lane's `brought`, in lane order. Does not order memory accesses.
void collective(const CallSite& site, void* brought, void (*together)(void* const* brought));

// Emulates cp.async.cg.shared.global for 16 bytes, or for zeros if `inside` is false. The destination holds NaN until
// the copy happens, either at once or in the wait that covers it; copies_at_once() (lanes.h) decides when. Throws if an
// address is not a multiple of 16, or if the destination is not in shared memory. Reading the source counts as an
// access to global memory (global_memory.h), so all lanes of a warp must make the same copies.
void async_copy(const CallSite& site, void* shared, const void* global, bool inside);
// Emulates cp.async.commit_group: makes a group of the copies since the last commit.
void async_commit(const CallSite& site);
// Emulates cp.async.wait_group: completes all groups of this thread except the last `pending`.
void async_wait(const CallSite& site, int pending);

// Emulates mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32, with the PTX ISA's layout of fragments. Computes each
// sum in double and rounds it to float once, because it is unknown how a GPU orders and rounds sums.
void mma(const CallSite& site, float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
// Emulates ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16. Each lane reads its own row, so that sanitizers see the
// access. Throws if a row's address is not a multiple of 16 or not in shared memory.
void ldmatrix(const CallSite& site, std::uint32_t (&r)[4], const void* row, bool transposed);

template <class T>
T shuffle_bits(const CallSite& site, unsigned mask, T value, int source) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "not supported by the shuffles of CUDA");
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = shuffle(site, mask, bits, source);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace foldgrad::emulation

#define threadIdx (*::foldgrad::emulation::position.thread)
#define blockIdx (static_cast<const dim3&>(::foldgrad::emulation::position.block))
#define blockDim (static_cast<const dim3&>(::foldgrad::emulation::position.block_dim))
#define gridDim (static_cast<const dim3&>(::foldgrad::emulation::position.grid_dim))

using foldgrad::emulation::call_site;
using foldgrad::emulation::CallSite;

inline void __syncthreads(const CallSite& site = call_site("__syncthreads")) { foldgrad::emulation::barrier(site); }

inline void __syncwarp(unsigned mask = 0xffffffffu, const CallSite& site = call_site("__syncwarp")) {
  foldgrad::emulation::sync_warp(site, mask);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, const CallSite& site = call_site("__shfl_sync")) {
  return foldgrad::emulation::shuffle_bits(site, mask, value, source & 31);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, const CallSite& site = call_site("__shfl_xor_sync")) {
  const int lane = foldgrad::emulation::lane_id(), source = lane ^ lane_mask;
  return foldgrad::emulation::shuffle_bits(site, mask, value, source < 32 ? source : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, const CallSite& site = call_site("__ballot_sync")) {
  return foldgrad::emulation::ballot(site, mask, predicate != 0);
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
