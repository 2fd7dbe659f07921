#include <random>

#include "bench/op_bench.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/permute/permute.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"

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
  return b.all;
}

}  // namespace foldgrad::bench
