// Checks accesses to global memory through engine/cuda/pack.h under emulation: their alignment, and the number of
// 32-byte sectors that the lanes of a warp access together. A sector is the smallest unit that a GPU's memory
// transfers.
#pragma once
#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

struct GlobalAccesses {
  std::int64_t bytes = 0;    // requested by all threads
  std::int64_t sectors = 0;  // sectors accessed, summed over the accesses of all warps
  std::int64_t least = 0;    // sectors that would suffice if the bytes of each access were consecutive
};

// Counts the accesses of kernels while the object lives.
class CountAccesses : Watch {
 public:
  CountAccesses();
  GlobalAccesses result() const;
};

// Records an access by the running thread. If `wanted` is false, the thread does not take part in this access of its
// warp. Throws if the address is not a multiple of the size. While accesses are counted, a block throws at its end if
// the n-th accesses of a warp's lanes come from different source locations.
void global_access(const CallSite& site, const void* at, std::size_t bytes, bool wanted);

// Checks the alignment as global_access() does, but does not count the access.
void check_alignment(const CallSite& site, const void* at, std::size_t bytes, bool wanted);

}  // namespace foldgrad::emulation
