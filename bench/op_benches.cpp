#include <random>

#include "bench/op_bench.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/conv2d/conv2d_channels_last.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/image_input/image_input.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/permute/permute.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad::bench {
namespace {

class Benches {
 public:
  explicit Benches(Device device) : device_(device) {}

  // f on these operands; see Work for what counts, here in elements.
  void memory_bound(const std::string& name, std::vector<Tensor> operands,
                    std::function<Var(const std::vector<Var>&)> f, double forward_elements, double backward_elements) {
    all.push_back({name, std::move(operands), std::move(f), {4 * forward_elements, 4 * backward_elements}});
  }
  void product(const std::string& name, std::vector<Tensor> operands, std::function<Var(const std::vector<Var>&)> f,
               double forward_flops, double backward_flops) {
    all.push_back({name, std::move(operands), std::move(f), {0, 0, forward_flops, backward_flops}});
  }

  Tensor values(Shape shape) {
    std::normal_distribution<float> normal;
    std::vector<float> v(shape.elements());
    for (float& x : v) x = normal(rng_);
    return Tensor::of(std::move(shape), v, device_);
  }
  Tensor ids(Shape shape, std::int64_t limit) {
    std::vector<std::int64_t> v(shape.elements());
    for (std::int64_t& id : v) id = std::int64_t(rng_() % std::uint64_t(limit));
    return Tensor::of(std::move(shape), v, device_);
  }

  Tensor bytes(Shape shape) {
    std::vector<std::uint8_t> v(shape.elements());
    for (std::uint8_t& x : v) x = std::uint8_t(rng_());
    return Tensor::of(std::move(shape), v, device_);
  }

  std::vector<OpBench> all;

 private:
  Device device_;
  std::mt19937 rng_{1};
};

void add_elementwise(Benches& b, std::int64_t R, std::int64_t C) {
  const std::string size = fmt::format("/{}x{}", R, C);
  const double n = double(R * C);
  const auto unary = [&](const char* name, Var (*f)(const Var&)) {
    b.memory_bound(
        name + size, {b.values({R, C})}, [f](const std::vector<Var>& v) { return f(v[0]); }, 2 * n, 3 * n);
  };
  unary("relu", relu);
  unary("gelu", gelu);
  unary("gelu_tanh", gelu_tanh);
  b.memory_bound(
      "add" + size, {b.values({R, C}), b.values({R, C})}, [](const std::vector<Var>& v) { return add(v[0], v[1]); },
      3 * n, 2 * n);
  b.memory_bound(
      "bias_gelu" + size, {b.values({R, C}), b.values({C})},
      [](const std::vector<Var>& v) { return bias_activation(v[0], v[1], Activation::gelu); }, 2 * n, 3 * n);
  b.memory_bound(
      "dropout" + size, {b.values({R, C})},
      [](const std::vector<Var>& v) {
        return dropout(v[0], 0.1, Random{1, 2, 3});
      },
      2 * n, 2 * n);
  b.memory_bound(
      "bias_dropout_residual" + size, {b.values({R, C}), b.values({C}), b.values({R, C})},
      [](const std::vector<Var>& v) {
        return bias_dropout_residual(v[0], v[1], v[2], 0.1, Random{1, 2, 3});
      },
      3 * n, 2 * n);
}

void add_rows(Benches& b, std::int64_t R, std::int64_t C) {
  const std::string size = fmt::format("/{}x{}", R, C);
  const double n = double(R * C);
  b.memory_bound(
      "layer_norm" + size, {b.values({R, C}), b.values({C}), b.values({C})},
      [](const std::vector<Var>& v) { return layer_norm(v[0], v[1], v[2]); }, 2 * n, 3 * n);
  b.memory_bound(
      "rms_norm" + size, {b.values({R, C}), b.values({C})},
      [](const std::vector<Var>& v) { return rms_norm(v[0], v[1]); }, 2 * n, 3 * n);
  b.memory_bound(
      "softmax" + size, {b.values({R, C})}, [](const std::vector<Var>& v) { return softmax(v[0]); }, 2 * n, 3 * n);
}

// Statistics over all rows take a pass of their own in both directions: x is read twice, and backward dy too.
void add_channel_norm(Benches& b, const char* name, const ChannelNormOptions& options, std::int64_t R, std::int64_t C) {
  const double n = double(R * C);
  const Tensor x = b.values({R, C});
  const ChannelNormState state = ChannelNormState::create(options, C, DType::f32, x.device());
  b.memory_bound(
      fmt::format("{}/{}x{}", name, R, C), {x, b.values({C}), b.values({C})},
      [=](const std::vector<Var>& v) { return channel_norm(v[0], v[1], v[2], nullptr, state, options, true); }, 3 * n,
      5 * n);
}

void add_lookups(Benches& b) {
  b.memory_bound(
      "embedding/10000x512/4096", {b.values({10000, 512}), b.ids({64, 64}, 10000)},
      [](const std::vector<Var>& v) { return embedding(v[0], v[1]); }, 2 * 4096 * 512.,
      (4096 + 10000) * 512.);  // a fresh gradient of the whole table is written
  b.memory_bound(
      "split_heads/128x64x512", {b.values({128, 64, 512})},
      [](const std::vector<Var>& v) { return split_heads(v[0], 8); }, 2 * 128 * 64 * 512., 2 * 128 * 64 * 512.);
  b.memory_bound(
      "cross_entropy/2048x10000", {b.values({2048, 10000}), b.ids({2048}, 10000)},
      [](const std::vector<Var>& v) {
        return cross_entropy(v[0], v[1], {.label_smoothing = 0.1, .reduction = Reduction::sum});
      },
      2048 * 10000., 2 * 2048 * 10000.);
}

void add_linear(Benches& b, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const double flops = 2. * double(rows) * double(in) * double(out);
  b.product(
      fmt::format("linear/{}x{}x{}", rows, in, out), {b.values({rows, in}), b.values({out, in}), b.values({out})},
      [](const std::vector<Var>& v) { return linear(v[0], v[1], v[2]); }, flops, 2 * flops);
}

// Forward: two products of [T, D] and [T, T] per head; backward: those and three more. A causal mask halves them.
void add_attention(Benches& b, std::int64_t B, std::int64_t T, int H, std::int64_t D, bool causal) {
  const double flops = 4. * double(B * T * T * H * D) * (causal ? 0.5 : 1);
  const Shape shape{B, T, H * D};
  b.product(
      fmt::format("attention{}/{}x{}x{}x{}", causal ? "_causal" : "", B, T, H, D),
      {b.values(shape), b.values(shape), b.values(shape)},
      [=](const std::vector<Var>& v) { return attention(v[0], v[1], v[2], {.heads = H, .causal = causal}); }, flops,
      2.5 * flops);
}

// What vision models add, where memory is the limit.
void add_images(Benches& b) {
  const double n = 128 * 32 * 32 * 64.;  // y has a quarter of it; the places of the maxima are bytes
  b.memory_bound(
      "max_pool2d/128x32x32x64", {b.values({128, 32, 32, 64})},
      [](const std::vector<Var>& v) { return max_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1}); },
      n + n / 4 + n / 16, n + n / 4 + n / 16);
  const double rows = 512 * 64 * 128.;
  b.memory_bound(
      "weighted_pool/512x64x128", {b.values({512, 64, 128}), b.values({512, 64})},
      [](const std::vector<Var>& v) { return weighted_pool(v[0], v[1]); }, rows, 2 * rows);
  const double pixels = 1024 * 32 * 32 * 3.;
  b.memory_bound(
      "image_input/1024x32x32x3", {b.bytes({1024, 32, 32, 3})},
      [](const std::vector<Var>& v) { return image_input(v[0], {}, DType::f32); }, pixels + pixels / 4, 0);
  const double weights = 2048 * 2048.;
  b.memory_bound(
      "weight_standardize/2048x2048", {b.values({2048, 2048}), b.values({2048})},
      [](const std::vector<Var>& v) { return weight_standardize(v[0], v[1]); }, 2 * weights, 3 * weights);
  const double tokens = 128 * 64 * 512.;
  b.memory_bound(
      "drop_path/128x64x512", {b.values({128, 64, 512}), b.values({512}), b.values({128, 64, 512})},
      [](const std::vector<Var>& v) {
        return bias_dropout_residual(v[0], v[1], v[2], 0, {}, {.p = 0.1, .random = {1, 2, 3}});
      },
      3 * tokens, 2 * tokens);
}

// 3 x 3 kernels that keep the size of the image.
Var convolve(const Var& x, const Var& weight, std::optional<Activation> activation = {}) {
  return conv2d_channels_last(x, weight, {.padding = 1, .activation = activation});
}

double convolution_flops(std::int64_t B, std::int64_t size, std::int64_t in, std::int64_t out) {
  return 2. * 9 * double(B * size * size * in * out);
}

void add_convolution(Benches& b, std::int64_t B, std::int64_t size, std::int64_t in, std::int64_t out, DType dtype) {
  const double flops = convolution_flops(B, size, in, out);
  b.product(
      fmt::format("conv2d/{}x{}x{}x{}x{}{}", B, size, size, in, out, dtype == DType::bf16 ? "/bf16" : ""),
      {b.values({B, size, size, in}).to(dtype), b.values({out, in, 3, 3}).to(dtype)},
      [](const std::vector<Var>& v) { return convolve(v[0], v[1]); }, flops, 2 * flops);
}

// How a Compact Convolutional Transformer reads 128 images of 32 x 32: nobody wants the images' gradient.
void add_stem(Benches& b, DType dtype) {
  const Tensor images = b.values({128, 32, 32, 3}).to(dtype);
  const char* suffix = dtype == DType::bf16 ? "/bf16" : "";
  const double first = convolution_flops(128, 32, 3, 64), second = convolution_flops(128, 16, 64, 128);
  const Tensor weight = b.values({64, 3, 3, 3}).to(dtype);
  b.product(
      fmt::format("conv2d_relu_image/128x32x32x3x64{}", suffix), {weight},
      [=](const std::vector<Var>& v) { return convolve(v[0].tape().constant(images), v[0], Activation::relu); }, first,
      first);
  b.product(
      fmt::format("cct_stem/128x32x32x3x64x128{}", suffix), {weight, b.values({128, 64, 3, 3}).to(dtype)},
      [=](const std::vector<Var>& v) {
        Var x = v[0].tape().constant(images);
        for (const Var& w : v)
          x = max_pool2d(convolve(x, w, Activation::relu), {.kernel = 3, .stride = 2, .padding = 1});
        return x;
      },
      first + second, first + 2 * second);
}

}  // namespace

std::vector<OpBench> op_benches(Device device) {
  Benches b(device);
  add_elementwise(b, 8192, 512);
  add_rows(b, 8192, 512);
  add_channel_norm(b, "batch_norm", ChannelNormOptions::bn(), 8192, 512);
  ChannelNormOptions un = ChannelNormOptions::un();
  un.warmup = 4;  // so that the averages are at work from the start
  add_channel_norm(b, "unified_norm", un, 8192, 512);
  add_lookups(b);
  for (std::int64_t in : {512, 1024})
    for (std::int64_t out : {512, 1024}) add_linear(b, 2048, in, out);
  add_linear(b, 8192, 384, 1536);
  for (bool causal : {false, true}) {
    add_attention(b, 32, 64, 8, 64, causal);
    add_attention(b, 64, 32, 4, 128, causal);
  }
  add_images(b);
  for (DType dtype : {DType::f32, DType::bf16}) {
    add_convolution(b, 128, 16, 64, 128, dtype);
    add_stem(b, dtype);
  }
  return b.all;
}

}  // namespace foldgrad::bench
