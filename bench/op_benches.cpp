#include <cmath>
#include <limits>

#include "bench/op_collection.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/center_norm/center_norm.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/permute/permute.h"
#include "ops/reduce/reduce.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/softmax/softmax.h"

namespace foldgrad::bench {
namespace {

constexpr Sizes kCpuSizes{8192, 512, 64, 64}, kGpuSizes{65536, 1024, 1024, 512};

void add_elementwise(Benches& b) {
  const std::int64_t R = b.sizes.rows, C = b.sizes.columns;
  const std::string size = fmt::format("/{}x{}", R, C);
  const double n = double(R * C);
  const auto unary = [&](const char* name, Var (*f)(const Var&)) {
    b.memory_bound(name + size, 2 * n, 3 * n, {b.values({R, C})}, [f](const Vars& v) { return f(v[0]); });
  };
  unary("relu", relu);
  unary("gelu", gelu);
  unary("gelu_tanh", gelu_tanh);
  b.memory_bound("add" + size, 3 * n, 2 * n, {b.values({R, C}), b.values({R, C})},
                 [](const Vars& v) { return add(v[0], v[1]); });
  b.memory_bound("bias_gelu" + size, 2 * n, 3 * n, {b.values({R, C}), b.values({C})},
                 [](const Vars& v) { return bias_activation(v[0], v[1], Activation::gelu); });
  b.memory_bound("dropout" + size, 2 * n, 2 * n, {b.values({R, C})}, [](const Vars& v) {
    return dropout(v[0], 0.1, Random{1, 2, 3});
  });
  b.memory_bound("bias_dropout_residual" + size, 3 * n, 2 * n, {b.values({R, C}), b.values({C}), b.values({R, C})},
                 [](const Vars& v) {
                   return bias_dropout_residual(v[0], v[1], v[2], 0.1, Random{1, 2, 3});
                 });
}

void add_rows(Benches& b) {
  const std::int64_t R = b.sizes.rows, C = b.sizes.columns;
  const std::string size = fmt::format("/{}x{}", R, C);
  const double n = double(R * C);
  b.memory_bound("layer_norm" + size, 2 * n, 3 * n, {b.values({R, C}), b.values({C}), b.values({C})},
                 [](const Vars& v) { return layer_norm(v[0], v[1], v[2]); });
  b.memory_bound("rms_norm" + size, 2 * n, 3 * n, {b.values({R, C}), b.values({C})},
                 [](const Vars& v) { return rms_norm(v[0], v[1]); });
  b.memory_bound("center_norm" + size, 2 * n, 3 * n, {b.values({R, C}), b.values({C}), b.values({C})},
                 [](const Vars& v) { return center_norm(v[0], v[1], v[2]); });
  b.memory_bound("scale_norm" + size, 2 * n, 3 * n, {b.values({R, C}), b.values({1})},
                 [](const Vars& v) { return scale_norm(v[0], v[1]); });
  b.memory_bound("softmax" + size, 2 * n, 3 * n, {b.values({R, C})}, [](const Vars& v) { return softmax(v[0]); });
}

// Adds a normalizer whose statistics need a separate pass over all rows, forward and backward. Each direction therefore
// reads x twice, and the backward pass also reads dy twice.
void add_channel_norm(Benches& b, const char* name, const ChannelNormOptions& options) {
  const std::int64_t R = b.sizes.rows, C = b.sizes.columns;
  const double n = double(R * C);
  const Tensor x = b.values({R, C});
  const ChannelNormState state = ChannelNormState::create(options, C, DType::f32, x.device());
  b.memory_bound(fmt::format("{}/{}x{}", name, R, C), 3 * n, 5 * n, {x, b.values({C}), b.values({C})},
                 [=](const Vars& v) { return channel_norm(v[0], v[1], v[2], state, options, {.training = true}); });
}

void add_lookups(Benches& b) {
  const std::int64_t sentences = b.sizes.sentences, tokens = 64 * sentences;
  const double n = 512. * double(tokens);
  // The backward pass writes a new gradient of the whole table.
  b.memory_bound(fmt::format("embedding/10000x512/{}", tokens), 2 * n, n + 10000 * 512.,
                 {b.values({10000, 512}), b.ids({sentences, 64}, 10000)},
                 [](const Vars& v) { return embedding(v[0], v[1]); });
  b.memory_bound(fmt::format("split_heads/{}x64x512", 2 * sentences), 4 * n, 4 * n,
                 {b.values({2 * sentences, 64, 8, 64})}, [](const Vars& v) {
                   return permute(v[0], {0, 2, 1, 3});
                 });
  const std::int64_t rows = 32 * sentences;
  b.memory_bound(fmt::format("cross_entropy/{}x10000", rows), 10000. * double(rows), 2 * 10000. * double(rows),
                 {b.values({rows, 10000}), b.ids({rows}, 10000)}, [](const Vars& v) {
                   return cross_entropy(v[0], v[1], {.label_smoothing = 0.1, .reduction = Reduction::sum});
                 });
}

void add_linear(Benches& b, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const double flops = 2. * double(rows) * double(in) * double(out);
  b.product(fmt::format("linear/{}x{}x{}", rows, in, out), flops, 2 * flops,
            {b.values({rows, in}), b.values({out, in}), b.values({out})},
            [](const Vars& v) { return linear(v[0], v[1], v[2]); });
}

// Counts two products of [T, D] and [T, T] per head in the forward pass, and five in the backward pass. A causal mask
// halves the counts.
void add_attention(Benches& b, std::int64_t B, std::int64_t T, int H, std::int64_t D, bool causal) {
  const double flops = 4. * double(B * T * T * H * D) * (causal ? 0.5 : 1);
  const Shape shape{B * T, H * D};
  b.product(fmt::format("attention{}/{}x{}x{}x{}", causal ? "_causal" : "", B, T, H, D), flops, 2.5 * flops,
            {b.values(shape), b.values(shape), b.values(shape)}, [=](const Vars& v) {
              const Segments rows = Segments::equal(B, T).to(v[0].device());
              return attention(v[0], v[1], v[2], {.heads = H, .causal = causal}, rows, rows);
            });
}

void add_memory_bound(Benches& b) {
  add_elementwise(b);
  add_rows(b);
  add_channel_norm(b, "batch_norm", ChannelNormOptions::bn());
  ChannelNormOptions un = ChannelNormOptions::un();
  un.warmup = 4;  // uses averages after four iterations
  add_channel_norm(b, "unified_norm", un);
  add_lookups(b);
}

void add_products(Benches& b) {
  const std::int64_t sentences = b.sizes.sentences, length = b.sizes.length;
  for (std::int64_t in : {512, 1024})
    for (std::int64_t out : {512, 1024}) add_linear(b, 32 * sentences, in, out);
  add_linear(b, 128 * sentences, 384, 1536);
  for (bool causal : {false, true}) {
    add_attention(b, 32, length, 8, 64, causal);
    add_attention(b, sentences, 32, 4, 128, causal);
  }
}

void fill_free_memory_with_nan(const Tensor& like) {
  std::vector<Tensor> held;
  for (int i = 0; i < 8; ++i)
    held.push_back(Tensor::full(like.shape(), std::numeric_limits<double>::quiet_NaN(), like.dtype(), like.device()));
}

void require_finite(const OpBench& op, const char* what, const Tensor& t) {
  Tape tape(/*recording=*/false);
  if (!std::isfinite(mean(tape.constant(t)).value().item()))
    throw std::runtime_error(fmt::format("{}: {} has elements that are not finite", op.name, what));
}

}  // namespace

void require_written(const OpBench& op) {
  Tape tape;
  std::vector<Var> vars;
  for (const Tensor& t : op.operands) {
    vars.push_back(is_floating(t.dtype()) ? tape.variable(t) : tape.constant(t));
    if (is_floating(t.dtype())) fill_free_memory_with_nan(t);
  }
  const Var y = op.f(vars);
  require_finite(op, "y", y.value());
  if (op.work.backward_bytes == 0 && op.work.backward_flops == 0) return;
  fill_free_memory_with_nan(y.value());
  tape.backward(y, Tensor::full(y.shape(), 0.5, y.dtype(), y.device()));
  for (const Var& v : vars)
    if (const Tensor grad = tape.grad(v); grad.defined()) require_finite(op, "a gradient", grad);
}

std::vector<OpBench> op_benches(Device device) {
  const bool gpu = device == Device::cuda;
  Benches b(device, gpu ? kGpuSizes : kCpuSizes);
  for (DType dtype : {DType::f32, DType::bf16}) {
    b.use(dtype);
    if (dtype == DType::f32 || gpu) {
      add_memory_bound(b);
      add_products(b);
      add_images(b);
    }
    if (dtype == DType::f32) add_image_input(b);
    add_convolution(b);
    add_stem(b);
  }
  return b.all;
}

}  // namespace foldgrad::bench
