// The ladder of ladder.h on a CPU: four ways to compute C = A B. Each adds one idea to the one before it;
// docs/cpu_ladder.md shows what that saves. The fifth is the engine's own (engine/gemm/gemm_fma.cpp). These are for
// readers, tests and bench/cpu_ladder_bench.cpp; nothing trains with them.
#pragma once
#include "book/ladder/ladder.h"

namespace foldgrad::ladder {

// Each runs on the calling thread and sums in the order of k with fused multiply-adds. packed_cpu sums blocks of 512
// terms one after another, so up to k = 512 all give the same bits. They throw std::invalid_argument if a size is
// negative or, except for naive_cpu, if n is not a multiple of the 4, 8 or 16 floats of a vector.
void naive_cpu(const Product<float>& g);      // 1: one element of C after another
void vectors_cpu(const Product<float>& g);    // 2: a vector of one row of C at a time
void registers_cpu(const Product<float>& g);  // 3: a tile of C in registers
void packed_cpu(const Product<float>& g);     // 4: each tile reads consecutive memory of B

}  // namespace foldgrad::ladder
