// Packs op(B), which is bf16, in the order in which oneDNN's kernels read it: in panels of 64 columns. Instructions
// multiply pairs of terms, so a panel has a row of 64 pairs for every two terms. The last panel is padded to 64 columns
// with zeros, and every panel is padded to a multiple of 32 terms. oneDNN calls this order BA16a64b2a.
#pragma once
#include <algorithm>

#include "engine/cpu/threads.h"
#include "engine/cpu/transpose.h"
#include "engine/gemm/backends.h"

namespace foldgrad {

constexpr std::int64_t kPanel = 64, kPanelTerms = 32;  // columns of a panel, and the unit to which its terms are padded

// Returns the number of elements of all panels.
inline std::int64_t elements_of_panels(const Gemm& g) {
  const auto whole = [](std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; };
  return whole(g.n, kPanel) * whole(g.k, kPanelTerms);
}

// Packs up to 64 columns, starting at b, into a panel with one row per pair of terms. Fills the rest, up to 64 columns
// and `padded` terms, with zeros.
inline void pack_panel(bf16* to, const bf16* b, const GemmStrides& at, std::int64_t columns, std::int64_t terms,
                       std::int64_t padded) {
  constexpr std::int64_t kSquare = kLanes<std::uint32_t>;  // number of pairs per side of a square
  std::int64_t t = 0;
  if (at.b_j == 1 && columns >= kPanel)
    for (; t + 2 <= terms; t += 2) {
      const bf16 *first = b + t * at.b_p, *second = first + at.b_p;
      bf16* row = to + t * kPanel;
#pragma omp simd
      for (std::int64_t j = 0; j < kPanel; ++j) row[2 * j] = first[j], row[2 * j + 1] = second[j];
    }
  if (at.b_p == 1 && at.b_j % 2 == 0)
    for (; t + 2 * kSquare <= terms; t += 2 * kSquare)
      for (std::int64_t j = 0; j < kPanel; j += kSquare)
        transpose_square(reinterpret_cast<std::uint32_t*>(to + t * kPanel + 2 * j), kPanel,
                         reinterpret_cast<const std::uint32_t*>(b + j * at.b_j + t), at.b_j / 2, columns - j);
  for (; t < padded; ++t)
    for (std::int64_t j = 0; j < kPanel; ++j)
      to[(t / 2 * kPanel + j) * 2 + t % 2] = t < terms && j < columns ? b[t * at.b_p + j * at.b_j] : bf16(0.0f);
}

// Stores all panels of a resolved product without a batch, on all threads.
inline void pack_panels(bf16* to, const bf16* b, const Gemm& g) {
  const GemmStrides at(g);
  const std::int64_t blocks = (g.k + kPanelTerms - 1) / kPanelTerms;
  parallel_ranges(blocks, kPanelTerms * g.n, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kPanelTerms, terms = std::min(end * kPanelTerms, g.k) - first;
    for (std::int64_t j = 0; j < g.n; j += kPanel)
      pack_panel(to + (j * blocks + begin * kPanel) * kPanelTerms, b + first * at.b_p + j * at.b_j, at, g.n - j, terms,
                 (end - begin) * kPanelTerms);
  });
}

}  // namespace foldgrad
