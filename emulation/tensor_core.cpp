#include <algorithm>
#include <cstring>

#include "emulation/lanes.h"

namespace foldgrad::emulation {
namespace {

constexpr int kRows = 16, kColumns = 8, kDepth = 16;

struct Mma {
  float* c;
  const std::uint32_t *a, *b;
};

// Returns one half of a register. Half 0 is the lower 16 bits.
FOLDGRAD_UNSEEN double half_of(std::uint32_t reg, int half) {
  const std::uint32_t wide = half ? reg & 0xffff0000u : reg << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return double(value);
}

FOLDGRAD_UNSEEN void multiply(void* const* brought) {
  const Mma* const* lane = reinterpret_cast<const Mma* const*>(brought);
  double a[kRows][kDepth], b[kDepth][kColumns];
  ++totals.products;
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < kDepth; ++k) a[i][k] = half_of(lane[i % 8 * 4 + k % 8 / 2]->a[i / 8 + k / 8 * 2], k % 2);
  for (int k = 0; k < kDepth; ++k)
    for (int j = 0; j < kColumns; ++j) b[k][j] = half_of(lane[j * 4 + k % 8 / 2]->b[k / 8], k % 2);
  for (int i = 0; i < kRows; ++i) {
    double sums[kColumns];
    for (int j = 0; j < kColumns; ++j) sums[j] = double(lane[i % 8 * 4 + j / 2]->c[i / 8 * 2 + j % 2]);
    for (int k = 0; k < kDepth; ++k)
      for (int j = 0; j < kColumns; ++j) sums[j] += a[i][k] * b[k][j];
    for (int j = 0; j < kColumns; ++j) lane[i % 8 * 4 + j / 2]->c[i / 8 * 2 + j % 2] = float(sums[j]);
  }
}

struct Row {
  std::uint16_t elements[8];
  std::uint32_t* r;
  std::size_t offset;  // in shared memory
  bool transposed;
};

// Counts bank conflicts: rows whose addresses agree modulo 128 bytes are in the same banks and are read in turn.
FOLDGRAD_UNSEEN void count_conflicts(const Row* const* rows) {
  int in_bank[8] = {}, most = 1;
  for (int i = 0; i < 8; ++i) {
    const std::size_t offset = rows[i]->offset;
    bool again = false;
    for (int other = 0; other < i; ++other) again |= rows[other]->offset == offset;
    if (!again) most = std::max(most, ++in_bank[offset / 16 % 8]);
  }
  totals.bank_conflicts += most - 1;
}

// Fills the registers: register m of every lane gets elements of matrix m. Lane 8 * m + i has passed row i of matrix m.
FOLDGRAD_UNSEEN void distribute(void* const* brought) {
  const Row* const* lane = reinterpret_cast<const Row* const*>(brought);
  for (int m = 0; m < 4; ++m) {
    const Row* const* rows = lane + 8 * m;
    count_conflicts(rows);
    for (int l = 0; l < kWarpSize; ++l) {
      const int i = l / 4, j = l % 4 * 2;
      const bool turned = lane[l]->transposed;
      const std::uint32_t low = turned ? rows[j]->elements[i] : rows[i]->elements[j];
      const std::uint32_t high = turned ? rows[j + 1]->elements[i] : rows[i]->elements[j + 1];
      lane[l]->r[m] = low | high << 16;
    }
  }
}

}  // namespace

void mma(const CallSite& site, float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  Mma mine{c, a, b};
  collective(site, &mine, multiply);
}

void ldmatrix(const CallSite& site, std::uint32_t (&r)[4], const void* row, bool transposed) {
  Row mine{{}, r, shared_offset(site, row, sizeof mine.elements), transposed};
  std::memcpy(mine.elements, row, sizeof mine.elements);
  collective(site, &mine, distribute);
}

}  // namespace foldgrad::emulation
