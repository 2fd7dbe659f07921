// Copies from global to shared memory that go on while the thread computes, from compute capability 8.0 on. For .cu
// files.
//
// A thread issues copies, commits them as a group, and waits for groups, the oldest first. Its copies are then there
// for itself; the others of its block see them after a barrier. Until then neither the destination may be touched nor
// the source be changed.
#pragma once
#include "engine/cuda/launch.h"

namespace foldgrad {

#ifdef __CUDACC__

// Copies 16 bytes, or zeros when not `inside`; both addresses are multiples of 16, `from` is not read outside.
__device__ __forceinline__ void async_copy16(void* shared, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(unsigned(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of this thread but the last kPending.
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
