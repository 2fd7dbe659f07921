// Tests the products of a convolution in f32 and bf16, both by our loops and by oneDNN.
#include "ops/conv2d/conv2d_products.h"

#include <fmt/format.h>

#include <string_view>

#include "engine/gemm/gemm.h"
#include "ops/conv2d/conv2d.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

struct Case {
  Shape x, weight;
  Conv2dOptions options;
  std::int64_t groups = 1;
};

// The cases include stems of vision models, odd sizes, single pixels, strides larger than the kernel, groups, and
// depthwise convolutions. In some cases, the last kernel position does not reach the border of the image. Two cases
// differ only in the height of the image: the oneDNN primitive that is cached for one must not compute the other.
const Case kCases[] = {{{2, 32, 32, 3}, {64, 3, 3, 3}, {1, 1}},   {{2, 16, 16, 64}, {128, 64, 3, 3}, {1, 1}},
                       {{1, 16, 16, 32}, {64, 32, 3, 3}, {2, 1}}, {{3, 7, 5, 16}, {33, 16, 3, 3}, {1, 0}},
                       {{2, 9, 9, 17}, {5, 17, 3, 2}, {2, 1}},    {{2, 6, 7, 48}, {32, 48, 1, 1}, {1, 0}},
                       {{2, 8, 8, 16}, {16, 16, 1, 1}, {3, 0}},   {{1, 12, 12, 8}, {24, 8, 5, 5}, {1, 2}},
                       {{1, 8, 8, 3}, {16, 3, 4, 4}, {4, 0}},     {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 0}},
                       {{2, 13, 16, 17}, {16, 17, 2, 3}, {5, 1}}, {{2, 1, 1, 64}, {64, 64, 7, 7}, {2, 3}},
                       {{2, 8, 8, 32}, {64, 8, 3, 3}, {1, 1}, 4}, {{2, 9, 8, 48}, {48, 1, 7, 7}, {1, 3}, 48},
                       {{1, 18, 16, 32}, {64, 32, 3, 3}, {2, 1}}, {{3, 9, 9, 17}, {17, 1, 3, 3}, {2, 1}, 17}};

const Conv2dPass kPasses[] = {Conv2dPass::y, Conv2dPass::dx, Conv2dPass::dweight};
const char* name(Conv2dPass pass) { return pass == Conv2dPass::y ? "y" : pass == Conv2dPass::dx ? "dx" : "dweight"; }

// The tensors of one product. The constructor makes them in f64. One of x, weight and y is the result.
struct Operands {
  Tensor x, weight, y, bias;

  explicit Operands(const Case& c, const Conv2dSizes& s)
      : x(randn(c.x, 1)),
        weight(randn(c.weight, 2, 0.1)),
        y(randn({s.batch, s.out_height, s.out_width, c.weight[0]}, 3)),
        bias(randn({c.weight[0]}, 4)) {}
  Operands as(DType dtype) const {
    Operands other = *this;
    for (Tensor* t : {&other.x, &other.weight, &other.y, &other.bias}) *t = t->to(dtype).clone();
    return other;
  }
  Conv2dBuffers buffers(bool with_bias) const {
    return {x.raw(), weight.raw(), y.raw(), with_bias ? bias.raw() : nullptr};
  }
  const Tensor& of(Conv2dPass pass) const { return pass == Conv2dPass::y ? y : pass == Conv2dPass::dx ? x : weight; }
};

// Calls `body` for every case, pass and precision (f32 and bf16), with the result of our loops in f64.
template <class Body>
void for_each_product(const Body& body) {
  for (const Case& c : kCases)
    for (Conv2dPass pass : kPasses)
      for (DType dtype : {DType::f32, DType::bf16}) {
        const Conv2dSizes s = conv2d_sizes("test", Tensor::zeros(c.x, DType::f32), c.weight[2], c.weight[3], c.options);
        const Operands at = Operands(c, s).as(dtype), want = at.as(DType::f64);
        const bool with_bias = pass == Conv2dPass::y;
        Conv2dProduct product{.pass = pass, .dtype = DType::f64, .s = s, .out = c.weight[0], .groups = c.groups};
        plain_conv2d_product(Device::cpu, product, want.buffers(with_bias));
        SCOPED_TRACE(fmt::format("{} of {} by {}, stride {}, padding {}, groups {}, {}", name(pass), c.x, c.weight,
                                 c.options.stride, c.options.padding, c.groups, foldgrad::name(dtype)));
        product.dtype = dtype;
        body(product, at, at.buffers(with_bias), want.of(pass));
      }
}

// Returns the tolerance of sums of up to 2,048 products, each of magnitude 1. bf16 rounds each result once, and our dx
// rounds each of its up to 25 summands as well.
double tolerance(DType dtype, double bf16_roundoffs) {
  return dtype == DType::f32 ? 1000 * std::ldexp(1, -24) : bf16_roundoffs * std::ldexp(1, -9);
}

TEST(Conv2dProducts, CONV_4_CONV_5_CONV_6_OfOurLoopsInLowerPrecision) {
  for_each_product([](const Conv2dProduct& p, const Operands& at, const Conv2dBuffers& buffers, const Tensor& want) {
    plain_conv2d_product(Device::cpu, p, buffers);
    EXPECT_TRUE(close(at.of(p.pass), want, tolerance(p.dtype, 16)));
  });
}

#ifdef FOLDGRAD_HAVE_ONEDNN
bool onednn_is_used() { return std::string_view(gemm_backend(Device::cpu, DType::f32)).starts_with("oneDNN"); }

TEST(Conv2dProducts, CONV_4_CONV_5_CONV_6_OfOnednn) {
  if (!onednn_is_used()) GTEST_SKIP() << "oneDNN is not in use";
  int in_f32 = 0;
  for_each_product([&](const Conv2dProduct& p, const Operands& at, const Conv2dBuffers& buffers, const Tensor& want) {
    if (!onednn_conv2d_product(p, buffers)) return;
    in_f32 += p.dtype == DType::f32;
    EXPECT_TRUE(close(at.of(p.pass), want, tolerance(p.dtype, 2)));
  });
  // oneDNN must have computed at least 19 of the 48 products in f32; otherwise, this test would check too little.
  EXPECT_GE(in_f32, 19);
}

// If oneDNN rejects a product, the result must stay unchanged.
TEST(Conv2dProducts, OnednnRefusesKernelsThatSeePaddingOnly) {
  if (!onednn_is_used()) GTEST_SKIP() << "oneDNN is not in use";
  const Case c{{1, 2, 2, 4}, {4, 4, 1, 1}, {1, 1}};
  const Conv2dSizes s = conv2d_sizes("test", Tensor::zeros(c.x, DType::f32), 1, 1, c.options);
  const Operands at = Operands(c, s).as(DType::f32), before = at.as(DType::f32);
  EXPECT_FALSE(onednn_conv2d_product({Conv2dPass::y, DType::f32, s, 4}, at.buffers(true)));
  EXPECT_TRUE(identical(at.y, before.y));
}
#endif

}  // namespace
}  // namespace foldgrad::testing
