#include "models/t2t/t2t.h"

#include <cmath>

#include "models/blocks/random_fill.h"
#include "ops/cast/cast.h"
#include "ops/conv2d/conv2d.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

Tensor sines(std::int64_t tokens, std::int64_t width) {  // [T2T-6]
  const Tensor table = Tensor::empty({1, tokens, width}, DType::f64);
  for (std::int64_t n = 0; n < tokens; ++n)
    for (std::int64_t j = 0; j < width; ++j) {
      const double angle = double(n) * std::pow(10000, -double(j / 2 * 2) / double(width));
      table.data<double>()[n * width + j] = j % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return table;
}

}  // namespace

T2t::T2t(const T2tConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageFamily(config, {.stem = "tokens_to_token"}, validated(config).tokens(), dtype, device),
      project_("tokens_to_token.project", config.patch_size(T2tConfig::kUnfolds - 1), config.width, dtype, device) {
  for (std::size_t i = 0; i + 1 < T2tConfig::kUnfolds; ++i)
    modules_.emplace_back(config_, "tokens_to_token.attention" + std::to_string(i + 1), config.patch_size(i), dtype,
                          device);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const BlockMaker make = BlockMaker{config_, dtype, device, config.layers, 0}.at_layer(i, config.layers);
    const std::string name = "blocks." + std::to_string(i);
    layers().push_back(
        {{make, {.scope = name + ".attn", .norm = name + ".norm1"}, config.qkv_bias},
         {make, {.prefix = name + ".mlp", .scope = name + ".mlp", .norm = name + ".norm2"}, NormPlace::pre}});
  }
  finish(seed);
}

void T2t::list(ModelParts& parts) {
  parts.add(modules_, project_);
  TokenModel::list(parts);
  parts.fixed.push_back(&positions());
}

void T2t::initialize(std::uint64_t seed) {
  for (Parameter* p : parameters())
    if (p->value.shape().rank() > 1) fill_normal(*p, 0.02, seed);
  for (TokenModule& module : modules_) module.initialize(seed);
  positions().value.copy_from(sines(config_.tokens(), config_.width).to(dtype()));
}

Var T2t::tokens(const Var& pixels, const ForwardPass& pass) {  // [T2T-1]
  const std::int64_t B = pixels.shape()[0];
  // The graph omits operations on constants. So at inference the pixels become a variable, which keeps the first unfold
  // in the graph. In training they stay constant, since nothing needs their gradient.
  Var x = pass.training ? pixels : pass.tape.variable(pixels.value());
  for (std::size_t i = 0;; ++i) {
    const std::int64_t before = config_.side(i), N = config_.side(i + 1) * config_.side(i + 1);
    const Var patches = [&] {
      const Tape::Scope scope(pass.tape, stem_scope());
      const Var map = reshape(x, {B, before, before, x.shape()[-1]});
      const std::int64_t K = config_.kernels[i];
      const Var u = unfold(map, K, K, {.stride = config_.strides[i], .padding = config_.paddings[i]});
      return reshape(u, {B * N, config_.patch_size(i)});
    }();
    if (i < modules_.size()) {
      x = modules_[i](patches, segments(B, N, pass), pass);
      continue;
    }
    const Tape::Scope scope(pass.tape, stem_scope());
    return reshape(cast(project_(patches, pass), pass.dtype), {B, N, config_.width});
  }
}

std::map<std::string, double> T2t::diagnostics() const {
  std::map<std::string, double> all;
  for (const TokenModule& module : modules_) module.diagnose(all);
  return all;
}

}  // namespace foldgrad
