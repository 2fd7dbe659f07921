#include "models/gpt/gpt.h"

#include <cmath>

#include "models/blocks/packed_weights.h"
#include "models/blocks/random_fill.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/positions/positions.h"

namespace foldgrad {

GptConfig::GptConfig() {
  width = 384, ffn_width = 1536, heads = 6;
  dropout = attention_dropout = 0.2, activation_dropout = 0;
  activation = "gelu";
}

void GptConfig::validate() const {
  require_positive("gpt", {{"vocabulary", vocabulary}, {"layers", layers}, {"context", context}});
  FOLDGRAD_CHECK(width >= 4 && width % 2 == 0, "gpt: width must be even and at least 4, got {}", width);
  BlockConfig::validate("gpt");
  require_choice("gpt", "positions", positions, kPositions);
}

namespace {

Tensor input(const NamedTensors& inputs, const char* name) {
  const auto found = inputs.find(name);
  FOLDGRAD_CHECK(found != inputs.end(), "gpt: the inputs lack \"{}\"", name);
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
  if (config.has_learned_positions()) positions_ = table("wpe.weight", {config.context, config.width});
  if (!config.tied) output_ = table("lm_head.weight", {config.vocabulary, config.width});
  if (config.output_bias) output_bias_ = table("lm_head.bias", {config.vocabulary});
  const BlockMaker make{config_, dtype, device, config.layers, 0};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string h = "h." + std::to_string(i);
    layers_.push_back(
        {{make, {.scope = h + ".attn", .norm = h + ".ln_1", .qkv = {"c_attn"}, .out = "c_proj"}},
         {make,
          {.prefix = h + ".mlp", .scope = h + ".mlp", .norm = h + ".ln_2", .fc1 = "c_fc", .fc2 = "c_proj"},
          norm_place(config_)}});
  }
  if (config.pre_norm) norm_ = make.normalizer("ln_f");
  config_.validate_sites("gpt", normalizers());
  if (seed) initialize(*seed);
}

void Gpt::initialize(std::uint64_t seed) {
  constexpr double kDeviation = 0.02;
  const double last = kDeviation / std::sqrt(2 * double(config_.layers));
  for (Parameter* table : {&embeddings_, &positions_, &output_})
    if (table->value.defined()) fill_normal(*table, kDeviation, seed);
  const std::int64_t C = config_.width;
  for (TransformerLayer& layer : layers_) {
    AttentionBlock& attention = layer.self_attention;
    FeedForwardBlock& feed_forward = layer.feed_forward;
    LinearLayer& qkv = attention.qkv[0];
    const double gain = attention.sublayer.norm->initial_gain(), ffn_gain = feed_forward.sublayer.norm->initial_gain();
    for (std::int64_t part = 0; part < 3; ++part) {  // filled as three matrices, each named after itself
      Parameter rows{qkv.weight.name + "." + "qkv"[part], qkv.weight.value.slice(part * C, (part + 1) * C)};
      fill_normal(rows, kDeviation * (part == 2 ? gain : 1), seed);
    }
    fill_normal(attention.sublayer.out.weight, gain * last, seed);
    fill_normal(feed_forward.fc1.weight, ffn_gain * kDeviation, seed);
    fill_normal(feed_forward.sublayer.out.weight, ffn_gain * last, seed);
  }
}

Var Gpt::embed(const Tensor& ids, const Tensor& places, const ForwardPass& pass, std::int64_t first_row) {  // [GPT-1]
  const Tape::Scope scope(pass.tape, "embed");
  const bool learned = config_.has_learned_positions();
  const Var tokens =
      embedding(pass.use(embeddings_), pass.tape.constant(ids), learned ? 1 : std::sqrt(double(config_.width)));
  const auto placed = [&] {
    if (learned) return add(tokens, gather(pass.use(positions_), pass.tape.constant(places.to(device()))));
    Tensor& table = sinusoids_[pass.dtype];
    if (!table.defined()) table = sinusoidal_table(config_.context + 2, config_.width, pass.dtype, device());
    return sinusoidal_positions(tokens, places, table);
  };
  return dropout(placed(), pass.dropout(config_.dropout),
                 pass.random(random_stream("embed.dropout"), first_row, config_.width));
}

Var Gpt::decode(Var x, const Segments& rows, const Attend& attend, const ForwardPass& pass) {
  for (TransformerLayer& layer : layers_) x = layer(std::move(x), rows, attend, pass);
  return norm_ ? norm_->apply(x, pass.norm(rows)) : x;
}

Var Gpt::logits(const Var& hidden, const ForwardPass& pass) {  // [GPT-2]
  const Tape::Scope scope(pass.tape, "lm_head");
  Parameter& table = output_table();
  if (pass.packed)
    return pass.packed->exact_product(
        table, [&] { return table.value; }, config_.output_bias ? output_bias_.value : Tensor(), hidden);
  const Var O = pass.use(table);
  return config_.output_bias ? linear(hidden, O, pass.use(output_bias_)) : linear(hidden, O);
}

const Segments& Gpt::rows_of(const Shape& ids) {
  if (rows_.count() != ids[0] || rows_.longest() != ids[1]) rows_ = Segments::equal(ids[0], ids[1]).to(device());
  return rows_;
}

Var Gpt::forward(const NamedTensors& inputs, const ForwardPass& pass) {
  const Tensor ids = input(inputs, "ids");
  FOLDGRAD_CHECK(ids.size() > 0 && ids.shape()[1] <= config_.context,
                 "gpt: sequences must have 1 to context = {} tokens, got ids {}", config_.context, ids.shape());
  const Segments rows = rows_of(ids.shape()).among(pass.communicator);
  const Attend to_earlier = [&](AttentionBlock& block, const Var& in) {
    return block.attend(in, rows, /*causal=*/true, pass);
  };
  const Var x = embed(ids.reshape({ids.size()}).to(device()), rows.places(), pass, rows.first_row());
  return logits(decode(x, rows, to_earlier, pass), pass);
}

Var Gpt::loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) {  // [GPT-3]
  const Tensor target = input(inputs, "target");
  return cross_entropy(logits, logits.tape().constant(target.reshape({target.size()}).to(device())),
                       {.label_smoothing = label_smoothing, .reduction = Reduction::sum});
}

}  // namespace foldgrad
