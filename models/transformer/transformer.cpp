#include "models/transformer/transformer.h"

#include <cmath>

#include "ops/arithmetic/arithmetic.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/positions/positions.h"
#include "ops/scale_norm/scale_norm.h"

namespace foldgrad {
namespace {

TransformerLayer layer_of(const BlockMaker& make, const std::string& name, bool decoder) {
  const auto attention = [&](const std::string& scope) {
    return AttentionBlock(
        make,
        {.scope = scope, .norm = scope + "_layer_norm", .qkv = {"q_proj", "k_proj", "v_proj"}, .out = "out_proj"});
  };
  const FeedForwardNames ffn{.prefix = name, .scope = name + ".ffn", .norm = name + ".final_layer_norm"};
  TransformerLayer layer{attention(name + ".self_attn"), {make, ffn, norm_place(make.config)}};
  if (decoder) layer.cross_attention = std::make_unique<AttentionBlock>(attention(name + ".encoder_attn"));
  return layer;
}

Var unit_length(const Var& table) { return unit_rows(table); }  // with its default eps

}  // namespace

Transformer::Transformer(const TransformerConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : Model(dtype, device), config_(config) {
  config.validate();
  const auto table = [&](const char* name, std::int64_t rows) {
    return Parameter{name, Tensor::zeros({rows, config.width}, dtype, device)};
  };
  encoder_table_ = table("encoder.embed_tokens.weight", config.source_vocabulary);
  if (!config.one_input_table()) decoder_table_ = table("decoder.embed_tokens.weight", config.target_vocabulary);
  if (config.own_output_table()) output_ = table("decoder.output_projection.weight", config.target_vocabulary);
  if (config.output_bias)
    output_bias_ = {"decoder.output_projection.bias", Tensor::zeros({config.target_vocabulary}, dtype, device)};
  const BlockMaker make{config_, dtype, device, config.encoder_layers, config.decoder_layers};
  for (std::int64_t i = 0; i < config.encoder_layers; ++i)
    encoder_.push_back(layer_of(make, "encoder.layers." + std::to_string(i), /*decoder=*/false));
  for (std::int64_t i = 0; i < config.decoder_layers; ++i)
    decoder_.push_back(layer_of(make, "decoder.layers." + std::to_string(i), /*decoder=*/true));
  if (config.pre_norm) {
    encoder_norm_ = make.normalizer("encoder.layer_norm");
    decoder_norm_ = make.normalizer("decoder.layer_norm");
  }
  config_.validate_sites("transformer", Model::normalizers());
  if (seed) initialize(*seed);
}

Tensor Transformer::rows_of(const Parameter& table) const {
  if (!config_.fixnorm) return table.value;
  Tape tape(/*recording=*/false);
  return unit_rows(tape.constant(table.value)).value();
}

Var Transformer::embed(Parameter& table, const Tensor& ids, const Tensor& places, std::int64_t first_row,
                       const char* stack, const ForwardPass& pass) {  // [TRF-1]
  const Tape::Scope scope(pass.tape, std::string(stack) + ".embed_tokens");
  const double length = std::sqrt(double(config_.width));
  const Var rows = embedding(pass.use(table), pass.tape.constant(ids), config_.fixnorm ? 1 : length, config_.pad);
  const Var x = config_.fixnorm ? scale(unit_rows(rows), length) : rows;
  Tensor& sines = positions_[pass.dtype];
  if (!sines.defined())
    sines = sinusoidal_table(config_.max_positions + 2, config_.width, pass.dtype, device());  // [POS-2]
  const Var placed = sinusoidal_positions(x, places, sines);
  return dropout(placed, pass.dropout(config_.dropout),
                 pass.random(random_stream(std::string(stack) + ".dropout"), first_row, config_.width));
}

Var Transformer::embed_target(const Tensor& ids, const Tensor& places, const ForwardPass& pass,
                              std::int64_t first_row) {
  return embed(target_table(), ids, places, first_row, "decoder", pass);
}

Var Transformer::encode(const Sentences& source, const ForwardPass& pass) {
  const Segments& rows = source.rows;
  const Attend to_all = [&](AttentionBlock& block, const Var& in) {
    return block.attend(in, rows, /*causal=*/false, pass);
  };
  Var x = embed(encoder_table_, source.ids, rows.places(), rows.first_row(), "encoder", pass);
  for (TransformerLayer& layer : encoder_) x = layer(std::move(x), rows, to_all, pass);
  return encoder_norm_ ? encoder_norm_->apply(x, pass.norm(rows)) : x;
}

Var Transformer::decode(const Sentences& input, const Var& memory, const Segments& source, const ForwardPass& pass) {
  const Segments& rows = input.rows;
  const Attend to_earlier = [&](AttentionBlock& block, const Var& in) {
    return block.attend(in, rows, /*causal=*/true, pass);
  };
  const Attend to_memory = [&](AttentionBlock& block, const Var& in) {
    return block.attend(in, rows, memory, source, pass);
  };
  return decode(embed_target(input.ids, rows.places(), pass, rows.first_row()), rows, to_earlier, to_memory, pass);
}

Var Transformer::decode(Var x, const Segments& rows, const Attend& own, const Attend& cross, const ForwardPass& pass) {
  for (TransformerLayer& layer : decoder_) x = layer(std::move(x), rows, own, pass, cross);
  return decoder_norm_ ? decoder_norm_->apply(x, pass.norm(rows)) : x;
}

Sentences Transformer::placed(const char* who, const Sentences& sentences, const ForwardPass& pass) const {
  FOLDGRAD_CHECK(sentences.rows.longest() <= config_.max_positions,
                 "{}: sentences must have at most max_positions = {} tokens, got {}", who, config_.max_positions,
                 sentences.rows.longest());
  return {sentences.ids.to(device()), sentences.rows.among(pass.communicator).to(device())};
}

Var Transformer::logits(const Var& hidden, const ForwardPass& pass) {
  const Tape::Scope scope(pass.tape, "decoder.output_projection");
  return output_logits(hidden, output_table(), output_bias_, pass, config_.fixnorm ? unit_length : nullptr);  // [TRF-2]
}

Var Transformer::forward(const NamedTensors& inputs, const ForwardPass& pass) {
  const TranslationBatch batch = TranslationBatch::of(inputs);
  const Sentences source = placed("encoder", batch.source, pass), input = placed("decoder", batch.input, pass);
  const Var memory = encode(source, pass);
  return logits(decode(input, memory, source.rows, pass), pass);
}

Var Transformer::loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) {
  return cross_entropy(logits, logits.tape().constant(inputs.at("target").to(device())),  // [TRF-3]
                       {.label_smoothing = label_smoothing, .ignore_index = config_.pad, .reduction = Reduction::sum});
}

}  // namespace foldgrad
