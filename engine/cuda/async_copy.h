// Asynchronous copies from global to shared memory, which run while the thread computes. They need compute capability
// 8.0. This header is for .cu files.
//
// A thread issues copies, commits them as a group, and waits for groups, the oldest first. After the wait, the thread
// sees its own copies; other threads of the block see them after a barrier. Until then, do not access the destination
// and do not change the source.
#pragma once
#include "engine/cuda/launch.h"

namespace foldgrad {

#ifdef __CUDACC__

// Copies 16 bytes. If `inside` is false, does not read `from` and writes zeros. Both addresses must be multiples of 16.
__device__ __forceinline__ void async_copy16(void* shared, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(unsigned(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of this thread except the last kPending.
template <int kPending>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#else

inline void async_copy16(void* shared, const void* from, bool inside, const CallSite& site = call_site("cp.async")) {
  emulation::async_copy(site, shared, from, inside);
}
inline void async_commit(const CallSite& site = call_site("cp.async.commit_group")) { emulation::async_commit(site); }
template <int kPending>
void async_wait(const CallSite& site = call_site("cp.async.wait_group")) {
  emulation::async_wait(site, kPending);
}

#endif

}  // namespace foldgrad
