// Tests products by tensor cores, asynchronous copies and large shared memory, each in a small kernel.
#ifdef FOLDGRAD_HAVE_CUDA
#include <numeric>

#include "tests/engine/cuda/tensor_core_test_kernels.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Calls body() once or, under emulation, once in each order of the threads.
void in_all_orders(const std::function<void()>& body) {
  body();
  in_other_thread_orders(body);
}

Tensor transposed(const Tensor& x) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  Tensor t = Tensor::empty({columns, rows}, x.dtype());
  for (std::int64_t i = 0; i < x.size(); ++i) t.data<bf16>()[i % columns * rows + i / columns] = x.data<bf16>()[i];
  return t;
}

// Checks products of random numbers, so that swapped elements of a fragment show. A sum has at most 32 terms, so there
// are at most 32 roundings to float. Each is at most 2^-23 (a GPU may round down) of a partial sum, which is below 25.
void expect_product(int warps, int depth, bool a_transposed, bool b_transposed) {
  const int rows = 16 * warps;
  const Tensor a = randn({rows, depth}, 1).to(DType::bf16), b = randn({depth, 16}, 2).to(DType::bf16);
  const Tensor on_a = (a_transposed ? transposed(a) : a).to(Device::cuda);
  const Tensor on_b = (b_transposed ? transposed(b) : b).to(Device::cuda);
  Tensor want = Tensor::zeros({rows, 16}, DType::f64);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < 16; ++j)
      for (int k = 0; k < depth; ++k)
        want.data<double>()[i * 16 + j] += double(a.data<bf16>()[i * depth + k]) * double(b.data<bf16>()[k * 16 + j]);
  in_all_orders([&] {
    const Tensor c = Tensor::empty({rows, 16}, DType::f32, Device::cuda);
    small_product_cuda(
        {on_a.data<bf16>(), on_b.data<bf16>(), c.data<float>(), warps, depth, a_transposed, b_transposed});
    EXPECT_TRUE(close(c, want, 32 * 25 * std::ldexp(1, -23)))
        << warps << " warps, depth " << depth << (a_transposed ? ", A transposed" : "")
        << (b_transposed ? ", B transposed" : "");
  });
}

TEST(CudaTensorCores, ProductsAreThoseOfDouble) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true})
      for (const int depth : {16, 32}) expect_product(depth == 16 ? 1 : 3, depth, a_transposed, b_transposed);
}

TEST(CudaTensorCores, AsynchronousCopiesArrive) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const int rows : {1, 2, 5}) {
    const int threads = 64, columns = 8 * threads;
    const Tensor in = random_ids({rows, columns}, 100, 3).to(DType::f32).to(DType::bf16),
                 on_device = in.to(Device::cuda);
    Tensor want = Tensor::zeros({columns}, DType::f32);
    for (int i = 0; i < rows * columns; ++i) want.data<float>()[i % columns] += float(in.data<bf16>()[i]);
    in_all_orders([&] {
      const Tensor out = Tensor::empty({columns}, DType::f32, Device::cuda);
      row_sum_cuda({on_device.data<bf16>(), out.data<float>(), rows, threads});
      EXPECT_TRUE(identical(out.to(Device::cpu), want)) << rows << " rows";
    });
  }
}

TEST(CudaTensorCores, ABlockGetsAllTheSharedMemoryThereIs) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const int n = 99 * 1024 / 4;
  std::vector<float> in(n);
  std::iota(in.begin(), in.end(), 0.0f);
  const Tensor on_device = Tensor::of<float>({n}, in).to(Device::cuda);
  in_all_orders([&] {
    const Tensor out = Tensor::empty({n}, DType::f32, Device::cuda);
    turn_round_cuda({on_device.data<float>(), out.data<float>(), n});
    const std::vector<float> got = out.values<float>();
    for (int i = 0; i < n; ++i) ASSERT_EQ(got[i], float(n - 1 - i)) << i;
  });
}

}  // namespace
}  // namespace foldgrad::testing
#endif
