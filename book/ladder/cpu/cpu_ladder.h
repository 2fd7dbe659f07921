// The CPU counterpart of ladder.h: four functions that compute C = A B. Each function adds one idea to the previous
// one; docs/cpu_ladder.md counts the loads and bytes that each idea saves. The fifth rung is the engine's own kernel
// (engine/gemm/gemm_fma.cpp). These four are for readers, tests and bench/cpu_ladder_bench.cpp; training does not use
// them.
#pragma once
#include "book/ladder/ladder.h"

namespace foldgrad::ladder {

// Each function runs on the calling thread and sums in the order of k with fused multiply-adds. packed_cpu sums blocks
// of 512 terms one after another, so all results are bit-identical up to k = 512. All functions throw
// std::invalid_argument if a size is negative. All except naive_cpu also throw unless n is a multiple of the number of
// floats in a vector (4, 8 or 16).
void naive_cpu(const Product<float>& g);      // 1: one element of C after another
void vectors_cpu(const Product<float>& g);    // 2: a vector of one row of C at a time
void registers_cpu(const Product<float>& g);  // 3: a tile of C in registers
void packed_cpu(const Product<float>& g);     // 4: each tile reads consecutive memory of B

}  // namespace foldgrad::ladder
