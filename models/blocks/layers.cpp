#include "models/blocks/layers.h"

#include "models/model_parts.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/dropout/dropout.h"

namespace foldgrad {

Sublayer::Sublayer(const BlockMaker& make, const std::string& name, LinearLayer out, std::unique_ptr<Normalizer> norm,
                   NormPlace place)
    : name(name),
      out(std::move(out)),
      norm(std::move(norm)),
      place(place),
      dropout_(make.config.dropout),
      drop_path_(make.drop_path),
      stream_(random_stream(name + ".dropout")),
      path_stream_(random_stream(name + ".drop_path")) {
  const std::string site = name + ".residual";
  if (make.config.normalizer_at.count(site)) residual = make.normalizer(site);
}

Var Sublayer::operator()(Var x, const Segments& rows, const ForwardPass& pass,
                         const std::function<Var(Var in)>& branch) {
  const NormContext context = pass.norm(rows);
  Var in = place == NormPlace::post ? x : norm->apply(x, context);
  if (place == NormPlace::stream) x = in;  // [CCT-2]
  const Var result = [&] {
    const Tape::Scope scope(pass.tape, name);
    return branch(std::move(in));
  }();
  if (residual) x = residual->apply(x, context);
  const auto sum = [&] {
    const Tape::Scope scope(pass.tape, name);
    const Random random = pass.random(stream_, rows.first_row(), x.shape()[1]);
    const DropPath path{pass.dropout(drop_path_), pass.random(path_stream_), rows.longest(), rows.first_segment()};
    return out.add_to(std::move(x), constants().scale, result, pass.dropout(dropout_), random, path, pass);
  };
  return place == NormPlace::post ? norm->apply(sum(), context) : sum();
}

ResidualConstants Sublayer::constants() const {
  const auto of = norm->info().residual;
  return of ? of(norm->options()) : ResidualConstants();
}

void Sublayer::list(ModelParts& parts) { parts.add(out, residual, norm); }

BlockMaker BlockMaker::at_layer(std::int64_t layer, std::int64_t layers) const {
  BlockMaker make = *this;
  make.drop_path = layers > 1 ? config.drop_path * double(layer) / double(layers - 1) : 0;
  return make;
}

std::unique_ptr<Normalizer> BlockMaker::normalizer(const std::string& site, std::int64_t channels,
                                                   const char* sublayer) const {
  if (const auto other = config.normalizer_at.find(site); other != config.normalizer_at.end())
    return make_normalizer(other->second, {}, site, channels, dtype, device);
  auto options = config.normalizer_options;
  const std::map<std::string, std::string> told{{"encoder_layers", std::to_string(encoder_layers)},
                                                {"decoder_layers", std::to_string(decoder_layers)},
                                                {"stack", site.starts_with("decoder.") ? "decoder" : "encoder"},
                                                {"sublayer", sublayer}};
  for (const NormalizerOption& option : normalizer_info(config.normalizer).options)
    if (option.told_by_model) options.emplace(option.name, told.at(option.name));
  return make_normalizer(config.normalizer, options, site, channels, dtype, device);
}

AttentionBlock::AttentionBlock(const BlockMaker& make, const AttentionNames& names, bool qkv_bias)
    : sublayer(make, names.scope,
               make.block_linear(BlockMatrix::out, names.scope + "." + names.out, make.config.width, make.config.width),
               make.normalizer(names.norm, make.config.width, "attention"), norm_place(make.config)),
      heads(int(make.config.heads)),
      dropout_(make.config.attention_dropout),
      stream_(random_stream(names.scope + ".attention_dropout")) {
  const std::int64_t width = make.config.width, columns = 3 * width / std::int64_t(names.qkv.size());
  for (const std::string& name : names.qkv)
    qkv.push_back(make.block_linear(BlockMatrix::qkv, names.scope + "." + name, width, columns, qkv_bias));
}

Var AttentionBlock::operator()(Var x, const Segments& rows, const Attend& own, const ForwardPass& pass) {
  return sublayer(std::move(x), rows, pass, [&](const Var& in) { return own(*this, in); });
}

AttentionOptions AttentionBlock::options(bool causal, const Segments& queries, const ForwardPass& pass) const {
  return {.heads = heads,
          .causal = causal,
          .dropout = pass.dropout(dropout_),
          .random = pass.random(stream_, queries.first_row(), std::int64_t(heads) << 24)};  // [ATT-8], 2^24 per head
}

Var AttentionBlock::attend(const Var& in, const Segments& rows, bool causal, const ForwardPass& pass) {
  if (is_one_product(qkv, pass))  // one layer, or packed weights at inference
    return attention_packed(side_by_side(qkv, in, pass), options(causal, rows, pass), rows);
  return attend(in, rows, in, rows, pass, causal);
}

Var AttentionBlock::attend(const Var& in, const Segments& queries, const Var& states, const Segments& keys,
                           const ForwardPass& pass, bool causal) {
  FOLDGRAD_CHECK(qkv.size() == 3, "attention: cross-attention must have q, k and v as three separate layers, got {}",
                 qkv.size());
  const Var Q = qkv[0](in, pass);
  const Var K = qkv[1](states, pass);
  const Var V = qkv[2](states, pass);
  return attention(Q, K, V, options(causal, queries, pass), queries, keys);
}

void AttentionBlock::list(ModelParts& parts) { parts.add(qkv, sublayer); }

FeedForwardBlock::FeedForwardBlock(const BlockMaker& make, const FeedForwardNames& names, NormPlace place)
    : fc1(make.block_linear(BlockMatrix::fc1, names.prefix + "." + names.fc1, make.config.width,
                            make.config.ffn_width)),
      sublayer(
          make, names.scope,
          make.block_linear(BlockMatrix::fc2, names.prefix + "." + names.fc2, make.config.ffn_width, make.config.width),
          make.normalizer(names.norm), place),
      activation_(make.config.activation_function()),
      dropout_(make.config.activation_dropout),
      stream_(random_stream(names.prefix + ".activation_dropout")) {
  if (make.config.gated)
    gate =
        make.block_linear(BlockMatrix::fc1, names.prefix + "." + names.gate, make.config.width, make.config.ffn_width);
}

Var FeedForwardBlock::operator()(Var x, const Segments& rows, const ForwardPass& pass) {
  return sublayer(std::move(x), rows, pass, [&](const Var& in) { return hidden(in, rows, pass); });
}

Var FeedForwardBlock::hidden(const Var& x, const Segments& rows, const ForwardPass& pass) {
  const Random random = pass.random(stream_, rows.first_row(), fc1.weight.value.shape()[0]);
  if (!gate) return fc1.activated(x, activation_, pass.dropout(dropout_), random, pass);
  const Var open = gate->activated(x, activation_, 0, {}, pass);
  const Var gated = mul(open, fc1(x, pass));
  return dropout(gated, pass.dropout(dropout_), random);
}

void FeedForwardBlock::list(ModelParts& parts) { parts.add(gate, fc1, sublayer); }

Var TransformerLayer::operator()(Var x, const Segments& rows, const Attend& own, const ForwardPass& pass,
                                 const Attend& cross) {
  x = self_attention(std::move(x), rows, own, pass);
  if (cross_attention) x = (*cross_attention)(std::move(x), rows, cross, pass);
  return feed_forward(std::move(x), rows, pass);
}

void TransformerLayer::list(ModelParts& parts) { parts.add(self_attention, cross_attention, feed_forward); }

}  // namespace foldgrad
