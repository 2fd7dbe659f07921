#include "models/gpt/gpt.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "models/blocks/random_fill.h"
#include "models/fold/model.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/positions/positions.h"

namespace foldgrad {
namespace {

Tensor input(const NamedTensors& inputs, const char* name) {
  const auto found = inputs.find(name);
  FOLDGRAD_CHECK(found != inputs.end(), "gpt: the input \"{}\" is missing", name);
  const Tensor& t = found->second;
  FOLDGRAD_CHECK(t.dtype() == DType::i64 && t.shape().rank() == 2, "gpt: {} must be i64 [B, T], got {}", name,
                 describe(t));
  return t;
}

}  // namespace

Gpt::Gpt(const GptConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : Model(dtype, device), config_(config) {
  config.validate();
  const auto table = [&](const char* name, const Shape& shape) {
    return Parameter{name, Tensor::zeros(shape, dtype, device)};
  };
  embeddings_ = table("wte.weight", {config.vocabulary, config.width});
  if (config.scaled_embedding)
    scale_ = {"wte.scale", Tensor::full({1}, std::sqrt(double(config.width)), dtype, device)};
  if (config.has_learned_positions()) positions_ = table("wpe.weight", {config.context, config.width});
  if (!config.tied) output_ = table("lm_head.weight", {config.vocabulary, config.width});
  if (config.output_bias) output_bias_ = table("lm_head.bias", {config.vocabulary});
  const BlockMaker make{config_, dtype, device, config.layers, 0};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string h = "h." + std::to_string(i), mlp = h + ".mlp";
    const FeedForwardNames names{
        .prefix = mlp, .scope = mlp, .norm = h + ".ln_2", .fc1 = "c_fc", .fc2 = "c_proj", .gate = "c_gate"};
    layers_.push_back({{make, {.scope = h + ".attn", .norm = h + ".ln_1", .qkv = {"c_attn"}, .out = "c_proj"}},
                       {make, names, norm_place(config_)}});
  }
  if (config.pre_norm) norm_ = make.normalizer("ln_f");
  config_.validate_sites("gpt", normalizers());
  if (seed) initialize(*seed);
}

void Gpt::initialize(std::uint64_t seed) {
  constexpr double kDeviation = 0.02;
  const double last = kDeviation / (config_.depth_scaled_init ? std::sqrt(2 * double(config_.layers)) : 1);
  for (Parameter* table : {&embeddings_, &positions_, &output_})
    if (table->value.defined()) fill_normal(*table, kDeviation, seed);
  const std::int64_t C = config_.width;
  for (TransformerLayer& layer : layers_) {
    AttentionBlock& attention = layer.self_attention;
    FeedForwardBlock& feed_forward = layer.feed_forward;
    LinearLayer& qkv = attention.qkv[0];
    const double gain = attention.sublayer.constants().initial_gain,
                 ffn_gain = feed_forward.sublayer.constants().initial_gain;
    for (std::int64_t part = 0; part < 3; ++part) {  // filled as three separate matrices
      Parameter rows{qkv.weight.name + "." + "qkv"[part], qkv.weight.value.slice(part * C, (part + 1) * C)};
      fill_normal(rows, kDeviation * (part == 2 ? gain : 1), seed);
    }
    fill_normal(attention.sublayer.out.weight, gain * last, seed);
    fill_normal(feed_forward.fc1.weight, ffn_gain * kDeviation, seed);
    if (feed_forward.gate) fill_normal(feed_forward.gate->weight, kDeviation, seed);
    fill_normal(feed_forward.sublayer.out.weight, ffn_gain * last, seed);
  }
}

Var Gpt::embed(const Tensor& ids, const Tensor& places, const ForwardPass& pass, std::int64_t first_row) {  // [GPT-1]
  const Tape::Scope scope(pass.tape, "embed");
  const bool sines = config_.positions == "sinusoidal";
  const double factor = sines ? std::sqrt(double(config_.width)) : 1;
  const Var rows = embedding(pass.use(embeddings_), pass.tape.constant(ids), factor);
  const Var tokens = config_.scaled_embedding ? scale_by(rows, pass.use(scale_)) : rows;
  const auto placed = [&] {
    if (config_.has_rotary_positions()) return tokens;
    if (!sines) return add(tokens, gather(pass.use(positions_), pass.tape.constant(places.to(device()))));
    Tensor& table = sinusoids_[pass.dtype];
    if (!table.defined()) table = sinusoidal_table(config_.context + 2, config_.width, pass.dtype, device());
    return sinusoidal_positions(tokens, places, table);
  };
  return dropout(placed(), pass.dropout(config_.dropout),
                 pass.random(random_stream("embed.dropout"), first_row, config_.width));
}

Var Gpt::project(AttentionBlock& block, const Var& in, const Tensor& places, const ForwardPass& pass) {
  const Var qkv = side_by_side(block.qkv, in, pass);
  if (!config_.has_rotary_positions()) return qkv;
  const auto [table, made] = rotations_.try_emplace(qkv.dtype(), config_.context, config_.width / config_.heads,
                                                    config_.rotary_theta, qkv.dtype(), device());
  return rotary(qkv, places, table->second, 2 * config_.width);
}

Var Gpt::decode(Var x, const Segments& rows, const Attend& attend, const ForwardPass& pass) {
  for (TransformerLayer& layer : layers_) x = layer(std::move(x), rows, attend, pass);
  return norm_ ? norm_->apply(x, pass.norm(rows)) : x;
}

Var Gpt::logits(const Var& hidden, const ForwardPass& pass) {  // [GPT-2]
  const Tape::Scope scope(pass.tape, "lm_head");
  return output_logits(hidden, output_table(), output_bias_, pass);
}

Var Gpt::forward(const NamedTensors& inputs, const ForwardPass& pass) {
  const Tensor ids = input(inputs, "ids");
  FOLDGRAD_CHECK(ids.size() > 0 && ids.shape()[1] <= config_.context,
                 "gpt: sequences must have 1 to context = {} tokens, got ids {}", config_.context, ids.shape());
  const std::int64_t B = ids.shape()[0], T = ids.shape()[1];
  if (rows_.count() != B || rows_.longest() != T) rows_ = Segments::equal(B, T).to(device());
  const Segments rows = rows_.among(pass.communicator);
  const Tensor places = rows.places(), there = places.to(device());
  const Attend to_earlier = [&](AttentionBlock& block, const Var& in) {
    return attention_packed(project(block, in, there, pass), block.options(/*causal=*/true, rows, pass), rows);
  };
  const Var x = embed(ids.reshape({ids.size()}).to(device()), places, pass, rows.first_row());
  return logits(decode(x, rows, to_earlier, pass), pass);
}

Var Gpt::loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) {  // [GPT-3]
  const Tensor target = input(inputs, "target");
  return cross_entropy(logits, logits.tape().constant(target.reshape({target.size()}).to(device())),
                       {.label_smoothing = label_smoothing, .reduction = Reduction::sum});
}

void Gpt::list(ModelParts& parts) {
  parts.add(embeddings_, scale_, positions_, layers_, norm_, output_, output_bias_);
  parts.added = {&positions_};
  parts.output = {&output_table()};
  if (config_.output_bias) parts.output.push_back(&output_bias_);
}

NamedTensors Gpt::smallest_inputs() const {
  const Tensor ids = Tensor::zeros({1, std::min<std::int64_t>(2, config_.context)}, DType::i64);
  return {{"ids", ids}, {"target", ids}};
}

NamedTensors Gpt::random_inputs(std::uint64_t seed) const {
  constexpr std::int64_t kSequences = 8, kTokens = 16;
  const std::int64_t T = std::min(config_.context, kTokens);
  std::mt19937_64 random(seed);
  const Tensor ids = Tensor::empty({kSequences, T}, DType::i64), target = ids.clone();
  for (const Tensor& t : {ids, target})
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.data<std::int64_t>()[i] = std::int64_t(random() % std::uint64_t(config_.vocabulary));
  return to({{"ids", ids}, {"target", target}}, device());
}

// If folding untied the output projection, the new model has a separate output table. If folding created a bias for
// this projection, the new model has that bias, too.
std::unique_ptr<Model> Gpt::alike(DType dtype, Device device, const FoldedGraph* folded) const {
  GptConfig config = config_;
  if (folded) {
    set_normalizers_left(config, *this, *folded);
    if (folded->created.count("lm_head.weight")) config.tied = false;
    for (const std::string& name : folded->created)
      if (name.ends_with(".bias")) (name == "lm_head.bias" ? config.output_bias : config.input_bias) = true;
  }
  return std::make_unique<Gpt>(config, std::nullopt, dtype, device);
}

}  // namespace foldgrad
