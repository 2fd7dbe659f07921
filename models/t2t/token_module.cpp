#include "models/t2t/token_module.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/blocks/random_fill.h"
#include "models/model_parts.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/divide_rows/divide_rows.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad {
namespace {

constexpr double kEps = 1e-8;  // as in yitu-opensource/T2T-ViT, token_performer.py

// Returns the configuration of a module's feed-forward block.
BlockConfig blocks_of(const T2tConfig& config) {
  BlockConfig blocks = config;
  blocks.width = blocks.ffn_width = config.token_width;
  blocks.dropout = config.token_dropout, blocks.activation_dropout = 0;
  return blocks;
}

}  // namespace

TokenModule::TokenModule(const T2tConfig& config, const std::string& name, std::int64_t in, DType dtype, Device device)
    : name_(name),
      width_(config.token_width),
      scale_(1 / std::sqrt(double(in))),
      dropout_(config.token_dropout),
      stream_(random_stream(name + ".dropout")),
      norm_(BlockMaker{config, dtype, device, 0, 0}.normalizer(name + ".norm1", in)),
      qkv_(name + (config.has_performers() ? ".kqv" : ".attn.qkv"), in, 3 * width_, dtype, device,
           config.has_performers() || config.qkv_bias),
      proj_(name + (config.has_performers() ? ".proj" : ".attn.proj"), width_, width_, dtype, device),
      w_{name + ".w", config.has_performers() ? Tensor::zeros({config.features(), width_}, dtype, device) : Tensor()},
      feed_forward_(BlockMaker{blocks_of(config), dtype, device, 0, 0},
                    {.prefix = name + ".mlp",
                     .scope = name + ".mlp",
                     .norm = name + ".norm2",
                     .fc1 = config.has_performers() ? "0" : "fc1",
                     .fc2 = config.has_performers() ? "2" : "fc2"},
                    NormPlace::pre) {}

Var TokenModule::operator()(const Var& x, const Segments& rows, const ForwardPass& pass) {  // [T2T-2] [T2T-3]
  const Var in = norm_->apply(x, pass.norm(rows));
  const Var u = [&] {
    const Tape::Scope scope(pass.tape, name_);
    const Var qkv = qkv_(in, pass);
    const auto part = [&](std::int64_t number) { return slice(qkv, 1, number * width_, (number + 1) * width_); };
    Var v = cast(part(2), pass.dtype);  // packed matrix products choose their own dtype
    const Var a = w_.value.defined() ? performer(part(0), part(1), v, rows, pass)
                                     : attention_packed(qkv, {.heads = 1, .scale = scale_}, rows);
    const Random random = pass.random(stream_, rows.first_row(), width_);
    return proj_.add_to(std::move(v), 1, a, pass.dropout(dropout_), random, {}, pass);
  }();
  return feed_forward_(u, rows, pass);
}

Var TokenModule::performer(const Var& k, const Var& q, const Var& v, const Segments& rows, const ForwardPass& pass) {
  const DType exact = pass.dtype == DType::bf16 ? DType::f32 : pass.dtype;
  const std::int64_t N = rows.longest(), B = rows.count(), m = w_.value.shape()[0];
  const Var w = parameter_as(pass.tape, w_, exact);
  const Var halves = pass.tape.constant(Tensor::full(w_.value.shape(), 0.5, exact, k.device()));
  const auto features = [&](const Var& part) {  // [T2T-4]
    const Var x = cast(part, exact);
    const Var half_square = linear(mul(x, x), halves);  // the same in all m columns
    return reshape(exp(sub(linear(x, w), half_square)), {B, N, m});
  };
  const Var f_k = features(k), f_q = features(q);
  const Var f_k_v = matmul(f_k, reshape(cast(v, exact), {B, N, width_}), /*transpose_a=*/true);
  const Var sum_f_k = scale(mean_pool(f_k), double(N));
  const Var n = matmul(f_q, f_k_v);
  const Var d = reshape(matmul(f_q, reshape(sum_f_k, {B, m, 1})), {B, N});
  if (pass.training) keys_ = k.value(), divisors_ = d.value();
  const Var a = divide_rows(n, d, double(m) * kEps);  // [T2T-5]
  return cast(reshape(a, {B * N, width_}), pass.dtype);
}

void TokenModule::diagnose(std::map<std::string, double>& all) const {
  if (!keys_.defined() || keys_.size() == 0) return;
  const auto host = [](const Tensor& t) { return t.to(Device::cpu).to(DType::f64).values<double>(); };
  const std::vector<double> keys = host(keys_);
  std::vector<double> divisors = host(divisors_);
  double sum = 0, longest = 0;
  for (auto key = keys.begin(); key != keys.end(); key += width_) {
    const double length = std::sqrt(std::inner_product(key, key + width_, key, 0.0));
    sum += length;
    longest = std::max(longest, length);
  }
  std::ranges::sort(divisors);
  const double m = double(w_.value.shape()[0]), count = double(divisors.size());
  const auto set = [&](const char* number, double value) { all[name_ + "." + number] = value; };
  set("mean_key_length", sum / count);
  set("greatest_key_length", longest);
  set("least_denominator", divisors.front() / m);
  set("median_denominator", divisors[divisors.size() / 2] / m);
  set("below_eps", double(std::ranges::lower_bound(divisors, m * kEps) - divisors.begin()) / count);
}

void TokenModule::list(ModelParts& parts) {
  parts.add(norm_, qkv_, w_, proj_, feed_forward_);
  if (w_.value.defined()) parts.fixed.push_back(&w_);
}

void TokenModule::initialize(std::uint64_t seed) {
  if (!w_.value.defined()) return;
  const std::int64_t m = w_.value.shape()[0], e = width_;
  Parameter random = normal_parameter(w_.name, {m, e}, 1, seed, DType::f64);
  double* const rows = random.value.data<double>();
  for (std::int64_t i = 0; i < m; ++i) {  // Gram-Schmidt; a second pass removes the rounding errors
    double* const row = rows + i * e;
    for (std::int64_t k = 0; k < 2 * i; ++k) {
      const double* const other = rows + k % i * e;
      const double product = std::inner_product(row, row + e, other, 0.0);
      for (std::int64_t c = 0; c < e; ++c) row[c] -= product / double(m) * other[c];
    }
    const double square = std::inner_product(row, row + e, row, 0.0);
    for (std::int64_t c = 0; c < e; ++c) row[c] *= std::sqrt(double(m) / square);
  }
  w_.value.copy_from(random.value.to(w_.value.dtype()));
}

}  // namespace foldgrad
