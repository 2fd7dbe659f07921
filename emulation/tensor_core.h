// Host versions of the tensor-core instructions in engine/cuda/tensor_core.h.
#pragma once
#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 with its fragments as the PTX ISA lays them out. Sums are exact
// until they are rounded once; a GPU's own order of summation and rounding are not known.
void mma(const CallSite& site, float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

// ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16. Each lane reads its own row, so that sanitizers see it. Throws when
// a row does not begin at a multiple of 16 bytes or does not lie in shared memory.
void ldmatrix(const CallSite& site, std::uint32_t (&r)[4], const void* row, bool transposed);

}  // namespace foldgrad::emulation
