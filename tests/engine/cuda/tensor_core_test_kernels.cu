#include "engine/cuda/async_copy.h"
#include "engine/cuda/tensor_core.h"
#include "tests/engine/cuda/tensor_core_test_kernels.h"

namespace foldgrad::testing {
namespace {

constexpr int kPadding = 8;  // in elements; these 16 bytes put the beginnings of rows in different banks

__device__ void load(bf16* to, const bf16* from, int rows, int columns) {
  for (int e = int(threadIdx.x); e < rows * columns; e += int(blockDim.x))
    to[e / columns * (columns + kPadding) + e % columns] = from[e];
}

__global__ void small_product_kernel(SmallProduct p) {
  const int rows = 16 * p.warps, lane = int(threadIdx.x) % 32, row0 = int(threadIdx.x) / 32 * 16;
  const int a_row = (p.a_transposed ? rows : p.depth) + kPadding, b_row = (p.b_transposed ? p.depth : 16) + kPadding;
  bf16* a = dynamic_shared<bf16>();
  bf16* b = a + (p.a_transposed ? p.depth : rows) * a_row;
  load(a, p.a, p.a_transposed ? p.depth : rows, a_row - kPadding);
  load(b, p.b, p.b_transposed ? 16 : p.depth, b_row - kPadding);
  __syncthreads();
  // Each lane's row address in a 16 x 16 block. ldmatrix loads the four blocks of 8 x 8 column by column (tall) or row
  // by row (wide).
  const int tall_row = lane % 16, tall_column = lane / 16 * 8;
  const int wide_row = lane / 16 * 8 + lane % 8, wide_column = lane / 8 % 2 * 8;
  FragmentC c[2] = {};
  for (int k = 0; k < p.depth; k += 16) {
    FragmentA fa;
    if (p.a_transposed)
      load_matrices_transposed(fa.r, a + (k + wide_row) * a_row + row0 + wide_column);
    else
      load_matrices(fa.r, a + (row0 + tall_row) * a_row + k + tall_column);
    std::uint32_t r[4];
    if (p.b_transposed)
      load_matrices(r, b + wide_row * b_row + k + wide_column);
    else
      load_matrices_transposed(r, b + (k + tall_row) * b_row + tall_column);
    mma(c[0], fa, FragmentB{{r[0], r[1]}});
    mma(c[1], fa, FragmentB{{r[2], r[3]}});
  }
  for (int n = 0; n < 2; ++n)
    for (int e = 0; e < 4; ++e) p.c[(row0 + lane / 4 + e / 2 * 8) * 16 + n * 8 + lane % 4 * 2 + e % 2] = c[n].r[e];
}

__global__ void row_sum_kernel(RowSum p) {
  bf16* stages = dynamic_shared<bf16>();  // [2, 8 threads]
  const int mine = 8 * int(threadIdx.x), columns = 8 * p.threads, mirror = columns - 8 - mine;
  const auto issue = [&](int row) {
    async_copy16(stages + row % 2 * columns + mine, p.in + (row < p.rows ? row * columns : 0) + mine, row < p.rows);
    async_commit();
  };
  float sums[8] = {};
  issue(0);
  for (int row = 0; row < p.rows; ++row) {
    issue(row + 1);
    async_wait<1>();
    __syncthreads();
    for (int k = 0; k < 8; ++k) sums[k] += float(stages[row % 2 * columns + mirror + k]);
    __syncthreads();
  }
  async_wait<0>();
  for (int k = 0; k < 8; ++k) p.out[mirror + k] = sums[k];
}

__global__ void turn_round_kernel(TurnRound p) {
  float* all = dynamic_shared<float>();
  for (int i = int(threadIdx.x); i < p.n; i += int(blockDim.x)) all[i] = p.in[i];
  __syncthreads();
  for (int i = int(threadIdx.x); i < p.n; i += int(blockDim.x)) p.out[i] = all[p.n - 1 - i];
}

}  // namespace

void small_product_cuda(const SmallProduct& p) {
  const int rows = 16 * p.warps;
  const int a = p.a_transposed ? p.depth * (rows + kPadding) : rows * (p.depth + kPadding);
  const int b = p.b_transposed ? 16 * (p.depth + kPadding) : p.depth * (16 + kPadding);
  launch("small product", small_product_kernel, {dim3(1), dim3(unsigned(32 * p.warps)), (a + b) * sizeof(bf16)}, p);
}
void row_sum_cuda(const RowSum& p) {
  launch("row sum", row_sum_kernel, {dim3(1), dim3(unsigned(p.threads)), p.threads * 16 * sizeof(bf16)}, p);
}
void turn_round_cuda(const TurnRound& p) {
  launch("turn round", turn_round_kernel, {dim3(1), dim3(256), p.n * sizeof(float)}, p);
}

}  // namespace foldgrad::testing
