// Accesses to global memory through engine/cuda/pack.h, on the host: their alignment, and how many sectors of 32 bytes,
// the least that a GPU's memory moves, the lanes of a warp touch together.
#pragma once
#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

struct GlobalAccesses {
  std::int64_t bytes = 0;    // asked for by all threads
  std::int64_t sectors = 0;  // touched, summed over the accesses of all warps
  std::int64_t least = 0;    // the sectors that as many bytes take in one piece, from the lowest of these on
};

// A count of what kernels do while it lives.
class CountAccesses : Watch {
 public:
  CountAccesses();
  GlobalAccesses result() const;
};

// Notes an access by the running thread; with `wanted` false it sits out that of the other lanes. Throws when the
// address is no multiple of the size and, where accesses are counted, at a block's end when lanes differ in their n-th.
void global_access(const CallSite& site, const void* at, std::size_t bytes, bool wanted);

// Checks the alignment alone, for what is not to be counted.
void check_alignment(const CallSite& site, const void* at, std::size_t bytes, bool wanted);

}  // namespace foldgrad::emulation
