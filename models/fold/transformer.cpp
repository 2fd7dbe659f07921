#include "models/fold/transformer.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/fold/site.h"

namespace foldgrad {
namespace {

TranslationBatch probe(const TransformerConfig& config, Device device) {
  const std::int64_t id = config.pad == 0 ? 1 % config.source_vocabulary : 0, pad = config.pad;
  const bool two = config.max_positions > 1;
  const Tensor ids = two ? Tensor::of<std::int64_t>({2, 2}, {id, id, id, pad}) : Tensor::of<std::int64_t>({1, 1}, {id});
  const Tensor mask = two ? Tensor::of<std::uint8_t>({2, 2}, {1, 1, 1, 0}) : Tensor::of<std::uint8_t>({1, 1}, {1});
  return {ids.to(device), mask.to(device), ids.to(device), mask.to(device), ids.to(device)};
}

Var logits(Transformer& model, const TranslationBatch& batch, const ForwardPass& pass) {
  const Var memory = model.encode(batch.source, batch.source_mask, pass);
  return model.logits(model.decode(batch.input, batch.input_mask, memory, batch.source_mask, pass), pass);
}

const char* kind_of(const AffineMap& map) {
  if (map.centered) return "centernorm";
  return map.adds() ? "affine" : "scale";
}

TransformerConfig folded_config(Transformer& model, const FoldedGraph& folded) {
  TransformerConfig config = model.config();
  if (normalizer_info(config.normalizer).offline()) config.normalizer = "none", config.normalizer_options = {};
  for (const Normalizer* norm : model.normalizers()) {
    if (!norm->info().offline()) continue;
    const auto left = folded.sites.find(norm->site());
    if (left != folded.sites.end())
      config.normalizer_at[norm->site()] = kind_of(left->second);
    else if (config.normalizer == "none")
      config.normalizer_at.erase(norm->site());
    else
      config.normalizer_at[norm->site()] = "none";
  }
  for (const auto& [scope, map] : folded.residuals) config.normalizer_at[scope + ".residual"] = kind_of(map);
  if (folded.created.count("decoder.output_projection.weight"))
    config.share_embeddings = config.share_embeddings == "all" ? "inputs" : "none";
  if (folded.created.count("decoder.output_projection.bias")) config.output_bias = true;
  return config;
}

// What a normalizer of the folded model is to hold, by SITE.NAME.
void add_normalizer_parameters(const std::string& site, const AffineMap& map, NamedTensors& values) {
  const std::int64_t C = map.channels();
  const double unit = map.centered ? double(C - 1) / double(C) : 1;  // centernorm multiplies by C / (C - 1) itself
  const Tensor A = Tensor::of({C}, map.A);
  for (std::int64_t c = 0; c < C; ++c) A.data<double>()[c] *= unit;
  values[site + ".weight"] = A;
  values[site + ".scale"] = A.slice(0, 1);
  values[site + ".bias"] = Tensor::of({C}, map.B);
}

// The same function with tables whose rows have been divided by their lengths.
std::unique_ptr<Transformer> with_unit_rows(Transformer& model) {
  TransformerConfig config = model.config();
  config.fixnorm = false;
  auto plain = std::make_unique<Transformer>(config, /*seed=*/0, model.dtype(), model.device());
  plain->copy_from(model);
  // A shared table once: dividing again would round again.
  for (Parameter* table : std::set{&plain->source_table(), &plain->target_table(), &plain->output_table()})
    table->value.copy_from(model.rows_of(*table));
  return plain;
}

}  // namespace

Graph graph_of(Transformer& model) {
  std::vector<std::string> sites;
  for (const Normalizer* norm : model.normalizers()) sites.push_back(norm->site());
  Tape tape;
  const ForwardPass pass{.tape = tape, .dtype = model.dtype()};
  return graph_of(tape, {logits(model, probe(model.config(), model.device()), pass)}, sites);
}

std::vector<FoldSite> fold_sites(Transformer& model) {
  std::vector<FoldSite> sites;
  for (Normalizer* norm : model.normalizers()) sites.push_back(fold_site(*norm, model.dtype(), model.device()));
  return sites;
}

FoldedTransformer fold(Transformer& model, const FoldOptions& options) {
  if (model.config().fixnorm) return fold(*with_unit_rows(model), options);
  NamedTensors values;
  for (const Parameter* p : model.parameters()) values[p->name] = p->value.to(Device::cpu).to(DType::f64);
  FoldedGraph folded = fold(graph_of(model), fold_sites(model), values, options);
  for (const auto& [site, map] : folded.sites) add_normalizer_parameters(site, map, folded.parameters);
  for (const auto& [scope, map] : folded.residuals)
    add_normalizer_parameters(scope + ".residual", map, folded.parameters);

  FoldedTransformer result{
      std::make_unique<Transformer>(folded_config(model, folded), /*seed=*/0, model.dtype(), model.device()),
      std::move(folded.reports)};
  for (Parameter* p : result.model->parameters()) {
    const auto value = folded.parameters.find(p->name);
    FOLDGRAD_CHECK(value != folded.parameters.end() && value->second.shape() == p->value.shape(),
                   "fold: the folded model needs {} {}", p->name, p->value.shape());
    p->value.copy_from(value->second.to(p->value.dtype()));
  }
  const auto state = model.state();
  for (const auto& [name, tensor] : result.model->state()) tensor.copy_from(state.at(name));
  return result;
}

Tensor inference_logits(Transformer& model, const TranslationBatch& batch, DType dtype) {
  Tape tape(/*recording=*/false);
  const Tensor all =
      logits(model, batch, {.tape = tape, .dtype = dtype}).value().to(Device::cpu).to(DType::f64).clone();
  const std::vector<std::uint8_t> real = batch.input_mask.values<std::uint8_t>();
  const std::int64_t V = all.shape()[-1];
  for (std::size_t r = 0; r < real.size(); ++r)
    if (!real[r]) std::fill_n(all.data<double>() + std::int64_t(r) * V, V, 0.0);
  return all;
}

Difference difference(const Tensor& got, const Tensor& want) {
  FOLDGRAD_CHECK(got.shape() == want.shape(), "difference: of {} and {}", got.shape(), want.shape());
  double most = 0, scale = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(got.data<double>()[i] - want.data<double>()[i]);
    if (std::isnan(off)) return {off, off};
    most = std::max(most, off);
    scale = std::max({scale, std::abs(want.data<double>()[i]), std::abs(got.data<double>()[i])});
  }
  return {most, most == 0 ? 0 : most / scale};
}

}  // namespace foldgrad
