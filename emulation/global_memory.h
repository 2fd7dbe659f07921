// Checks accesses to global memory through engine/cuda/pack.h on the host: their alignment, and the number of 32-byte
// sectors that the lanes of a warp access together. A sector is the least that a GPU's memory moves.
#pragma once
#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

struct GlobalAccesses {
  std::int64_t bytes = 0;    // requested by all threads
  std::int64_t sectors = 0;  // accessed, summed over the accesses of all warps
  std::int64_t least = 0;    // needed if each access's bytes were consecutive from its lowest address
};

// Counts accesses of kernels while the object lives.
class CountAccesses : Watch {
 public:
  CountAccesses();
  GlobalAccesses result() const;
};

// Notes an access by the running thread; with `wanted` = false the thread sits out this access of its warp. Throws if
// the address is not a multiple of the size. While accesses are counted, also throws at the end of a block if the
// lanes' n-th accesses differ.
void global_access(const CallSite& site, const void* at, std::size_t bytes, bool wanted);

// Only checks the alignment, for accesses that should not be counted.
void check_alignment(const CallSite& site, const void* at, std::size_t bytes, bool wanted);

}  // namespace foldgrad::emulation
