// The ladder of ladder.h on a processor: four ways to compute C = A B, each with one idea more than the one before it.
// docs/cpu_ladder.md counts what that saves. The fifth is the engine's own (engine/gemm/gemm_fma.cpp). For readers,
// their tests and bench/cpu_ladder_bench.cpp: nothing trains with these.
#pragma once
#include "book/ladder/ladder.h"

namespace foldgrad::ladder {

// Each runs on the calling thread and sums in the order of k by fused multiplications and additions, packed_cpu blocks
// of 512 terms after each other: up to 512 terms all give the same bits. Throws std::invalid_argument for negative
// sizes and, except for naive_cpu, unless n is a multiple of the 4, 8 or 16 floats of a vector.
void naive_cpu(const Product<float>& g);      // 1: an element of C after the other
void vectors_cpu(const Product<float>& g);    // 2: a vector of a row of C at a time
void registers_cpu(const Product<float>& g);  // 3: a tile of C in registers
void packed_cpu(const Product<float>& g);     // 4: what a tile reads of B lies in one piece

}  // namespace foldgrad::ladder
