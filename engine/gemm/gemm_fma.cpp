// Multiplies f32 matrices with our own loops. docs/cpu_ladder.md derives them step by step.
//
//   1. A tile of C stays in registers while its terms are summed (engine/gemm/tile.h).
//   2. A block is 512 terms of the inner dimension. For each block, B is packed into panels as wide as a tile: the 32
//      columns of one term, then those of the next term. So a tile reads consecutive memory instead of 512 rows on
//      different pages. A transposed A is packed in the same way, into panels of 14 rows. Otherwise A is read in place,
//      since its rows are contiguous.
//   3. A piece of C is up to 140 rows by 256 columns. Its tiles are computed row by row, so that the 14 rows of A stay
//      in the L1 cache, and the columns of B, 512 KiB, in the L2 cache. The pieces are divided among the threads.
//
// An element of C is the sum of its blocks, added in order. In a block the terms are added in order, each by one fused
// multiply-add. So the bits of an element depend neither on the number of threads and pieces nor on the vector width.
//
// The suffix _fma means -ffp-contract=fast (engine/cpu/vector.h).
#include <algorithm>
#include <utility>

#include "engine/cpu/threads.h"
#include "engine/cpu/transpose.h"
#include "engine/gemm/backends.h"
#include "engine/gemm/tile.h"
#include "engine/memory.h"

namespace foldgrad {
namespace {

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
  // Returns part `number` of `parts` almost equal parts.
  Range part(std::int64_t number, std::int64_t parts) const {
    return {begin + size() * number / parts, begin + size() * (number + 1) / parts};
  }
};

// Returns the number of parts that n items need if a part has at most `most` items.
std::int64_t parts_of(std::int64_t n, std::int64_t most) { return (n + most - 1) / most; }

constexpr std::int64_t kBlock = 512;  // terms

// Rows of op(A) or columns of op(B), times a factor: term t of line l is factor * x[l * line + t * term].
struct Lines {
  const float* x;
  std::int64_t line, term, count;
  float factor;
};

// Packs kWidth lines into a panel. Term t of line l is stored in to[t * kWidth + l]; missing lines become zeros. May
// write up to one vector beyond the panel.
template <int kWidth>
void pack(float* to, const Lines& from, std::int64_t terms) {
  constexpr int L = kLanes<float>;
  const auto [x, line, term, count, factor] = from;
  std::int64_t t = 0;
  if (line == 1 && count >= padded<float>(kWidth))
    for (; t < terms; ++t)
      for (int l = 0; l < kWidth; l += L) store(to + t * kWidth + l, factor * load(x + t * term + l));
  if (term == 1 && kWidth % L == 0)
    for (; t + L <= terms; t += L)
      for (int l = 0; l < kWidth; l += L)
        transpose_square(to + t * kWidth + l, kWidth, x + l * line + t, line, count - l, factor);
  for (; t < terms; ++t)
    for (int l = 0; l < kWidth; ++l) to[t * kWidth + l] = l < count ? factor * x[l * line + t * term] : 0.0f;
}

// Computes the product for one matrix of the batch. Packs one block at a time, of some panels of B and, if A is
// transposed, of some panels of A.
class Product {
 public:
  Product(const Gemm& g, const GemmPointers& p, std::int64_t number)
      : g_(g),
        at_(g),
        a_(static_cast<const float*>(p.a) + number * g.batch_stride_a),
        b_(static_cast<const float*>(p.b) + number * g.batch_stride_b),
        bias_(static_cast<const float*>(p.bias)),
        c_(static_cast<float*>(p.c) + number * g.batch_stride_c) {}

  void run() {
    const Range all_a{0, parts_of(g_.m, kTileRows)}, all_b{0, parts_of(g_.n, kColumns)};
    const std::int64_t groups_a = packs_a() ? parts_of(g_.m, kPacked) : 1, groups_b = parts_of(g_.n, kPacked);
    const std::int64_t most_a = packs_a() ? parts_of(all_a.size(), groups_a) : 0,
                       most_b = parts_of(all_b.size(), groups_b);
    const std::size_t bytes = std::size_t(most_a * kPanelA + most_b * kPanelB) * sizeof(float);
    const auto memory = memory::allocate(Device::cpu, std::max(bytes, kHugePage));
    packed_b_ = static_cast<float*>(memory.get());
    packed_a_ = packed_b_ + most_b * kPanelB;
    for (std::int64_t group_b = 0; group_b < groups_b; ++group_b)
      for (terms_ = {0, 0}; terms_.end < g_.k;) {
        terms_ = {terms_.end, std::min(terms_.end + kBlock, g_.k)};
        for (std::int64_t group_a = 0; group_a < groups_a; ++group_a) {
          panels_a_ = all_a.part(group_a, groups_a), panels_b_ = all_b.part(group_b, groups_b);
          pack_panels(/*with_b=*/group_a == 0);
          multiply_panels();
        }
      }
  }

 private:
  static constexpr int kColumns = kTileVectors * kLanes<float>;
  static constexpr std::int64_t kPanelA = kTileRows * kBlock + kLanes<float>, kPanelB = kColumns * kBlock;
  // The maximum number of packed rows, and of packed columns. Either takes 2 MiB per block.
  static constexpr std::int64_t kPacked = 1024;
  static constexpr std::size_t kHugePage = std::size_t(2) << 20;

  bool packs_a() const { return g_.transpose_a; }
  float* packed_a(std::int64_t panel) const { return packed_a_ + (panel - panels_a_.begin) * kPanelA; }
  float* packed_b(std::int64_t panel) const { return packed_b_ + (panel - panels_b_.begin) * kPanelB; }

  // Each piece packs panels of both A and B, so that a thread usually multiplies the rows of A that it packed itself.
  void pack_panels(bool with_b) const {
    const Range some_a = packs_a() ? panels_a_ : Range{}, some_b = with_b ? panels_b_ : Range{};
    const std::int64_t pieces = parts_of(std::max(some_a.size(), some_b.size()), /*panels, of each*/ 2);
    parallel(pieces, [&](std::int64_t piece) {
      const Range a = some_a.part(piece, pieces), b = some_b.part(piece, pieces);
      // Packs a few terms of all panels at a time, so that each row is read in order.
      constexpr std::int64_t kTerms = 16;
      for (std::int64_t t = terms_.begin; t < terms_.end; t += kTerms) {
        const std::int64_t terms = std::min(kTerms, terms_.end - t), done = t - terms_.begin;
        for (std::int64_t i = a.begin; i < a.end; ++i)
          pack<kTileRows>(
              packed_a(i) + done * kTileRows,
              {a_ + i * kTileRows * at_.a_i + t * at_.a_p, at_.a_i, at_.a_p, g_.m - i * kTileRows, /*factor=*/1},
              terms);
        for (std::int64_t j = b.begin; j < b.end; ++j)
          pack<kColumns>(
              packed_b(j) + done * kColumns,
              {b_ + j * kColumns * at_.b_j + t * at_.b_p, at_.b_j, at_.b_p, g_.n - j * kColumns, float(g_.alpha)},
              terms);
      }
    });
  }

  void multiply_panels() const {
    // A piece has 8 panels of B and at most 10 panels of A. There are at least 64 pieces, unless A has too few panels.
    const std::int64_t across = parts_of(panels_b_.size(), 8);
    const std::int64_t down =
        std::min(panels_a_.size(), std::max(parts_of(64, across), parts_of(panels_a_.size(), 10)));
    parallel(down * across, [&](std::int64_t piece) {
      const Range some_a = panels_a_.part(piece / across, down), some_b = panels_b_.part(piece % across, across);
      for (std::int64_t i = some_a.begin; i < some_a.end; ++i)
        for (std::int64_t j = some_b.begin; j < some_b.end; ++j) multiply_tile_at(i * kTileRows, j * kColumns);
    });
  }

  void multiply_tile_at(std::int64_t row, std::int64_t column) const {
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, g_.m - row);
    const std::int64_t columns = std::min<std::int64_t>(kColumns, g_.n - column);
    const bool first = terms_.begin == 0, begun = bias_ || (g_.beta != 0 && g_.beta != 1);
    float* c = c_ + row * g_.row_stride_c + column;
    if (first && begun)  // the sums are added to these values
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          float& c_ij = c[i * g_.row_stride_c + j];
          c_ij = bias_ ? bias_[column + j] : float(g_.beta) * c_ij;
        }
    const Tile<float> tile{.c = c,
                           .a = packs_a() ? packed_a(row / kTileRows) : a_ + row * at_.a_i + terms_.begin,
                           .b = packed_b(column / kColumns),
                           .c_row = g_.row_stride_c,
                           .a_row = packs_a() ? 1 : at_.a_i,
                           .a_term = packs_a() ? kTileRows : 1,
                           .b_row = kColumns,
                           .terms = terms_.size(),
                           .add = !first || begun || g_.beta == 1};
    columns == kColumns ? multiply_tile(tile, rows, kTileVectors) : multiply_beside(tile, rows, columns);
  }

  // Multiplies a tile at the right edge of C, whose columns do not fill the vectors, and uses a buffer for the result.
  static void multiply_beside(Tile<float> tile, std::int64_t rows, std::int64_t columns) {
    float wide[kTileRows * kColumns] = {};
    float* const c = std::exchange(tile.c, wide);
    const std::int64_t c_row = std::exchange(tile.c_row, kColumns);
    for (std::int64_t i = 0; tile.add && i < rows; ++i) std::copy_n(c + i * c_row, columns, wide + i * kColumns);
    multiply_tile(tile, rows, kTileVectors);
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(wide + i * kColumns, columns, c + i * c_row);
  }

  const Gemm& g_;
  const GemmStrides at_;
  const float *a_, *b_, *bias_;
  float* c_;
  Range panels_a_{}, panels_b_{}, terms_{};  // the panels of A and B that are currently packed, and their terms
  float *packed_a_ = nullptr, *packed_b_ = nullptr;
};

}  // namespace

bool fma_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p) {
  if (dtype != DType::f32) return false;
  for (std::int64_t number = 0; number < g.batch; ++number) Product(g, p, number).run();
  return true;
}

}  // namespace foldgrad
