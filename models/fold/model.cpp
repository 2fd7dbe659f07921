#include "models/fold/model.h"

namespace foldgrad {
namespace {

const char* kind_of(const AffineMap& map) {
  if (map.centered) return "centernorm";
  return map.adds() ? "affine" : "scale";
}

// Returns the gain and bias that folding can take from a normalizer that is not offline (Normalizer::inference()).
AffineMap gain_of(Normalizer& norm) {
  AffineMap map = AffineMap::identity(norm.channels());
  for (const Parameter* p : norm.parameters()) {
    const std::vector<double> values = p->value.to(Device::cpu).to(DType::f64).values<double>();
    if (p->name == norm.site() + ".weight") map.A = values;
    if (p->name == norm.site() + ".bias") map.B = values;
    if (p->name == norm.site() + ".scale") map.A.assign(map.A.size(), values[0]);
  }
  return map;
}

// Adds the parameters of a normalizer that the folded model keeps. The parameters are named SITE.NAME.
void add_normalizer_parameters(const std::string& site, const AffineMap& map, NamedTensors& values) {
  const std::int64_t C = map.channels();
  const double unit = map.centered ? double(C - 1) / double(C) : 1;  // centernorm itself multiplies by C / (C - 1)
  const Tensor A = Tensor::of({C}, map.A);
  for (std::int64_t c = 0; c < C; ++c) A.data<double>()[c] *= unit;
  values[site + ".weight"] = A;
  values[site + ".scale"] = A.slice(0, 1);
  values[site + ".bias"] = Tensor::of({C}, map.B);
}

}  // namespace

Graph graph_of(Model& model) {
  std::vector<std::string> sites;
  for (const Normalizer* norm : model.normalizers()) sites.push_back(norm->site());
  Tape tape;
  const Var logits = model.forward(model.smallest_inputs(), {.tape = tape, .dtype = model.dtype()});
  return graph_of(tape, {logits}, sites);
}

FoldSite fold_site(Normalizer& norm, DType dtype, Device device) {
  const std::optional<InferenceForm> form = norm.inference();
  const bool offline = form && form->offline();
  FoldSite site{norm.site(), offline, offline ? form->map : gain_of(norm)};
  if (!form) return site;
  Tape tape;
  const Var x = tape.variable(Tensor::zeros({1, 1, norm.channels()}, dtype, device));
  const Graph alone = graph_of(tape, {norm.apply(x, {})}, {norm.site()});
  if (alone.nodes.empty()) return site;  // the result is x itself
  site.recording = alone.nodes[0].parts;
  return site;
}

FoldedModel fold(Model& model, const FoldOptions& options) {
  if (const std::unique_ptr<Model> same = model.foldable()) return fold(*same, options);
  NamedTensors values;
  for (const auto& [name, value] : model.values()) values[name] = value.to(Device::cpu).to(DType::f64);
  std::vector<FoldSite> sites;
  for (Normalizer* norm : model.normalizers()) sites.push_back(fold_site(*norm, model.dtype(), model.device()));
  FoldedGraph folded = fold(graph_of(model), sites, values, options);
  for (const auto& [site, map] : folded.sites) add_normalizer_parameters(site, map, folded.parameters);
  for (const auto& [scope, map] : folded.residuals)
    add_normalizer_parameters(scope + ".residual", map, folded.parameters);

  FoldedModel result{model.alike(model.dtype(), model.device(), &folded), std::move(folded.reports)};
  for (Parameter* p : result.model->parameters()) {
    const auto value = folded.parameters.find(p->name);
    // alike() gives all layers of a kind a bias if folding made one for any of them; the other biases stay 0.
    if (value == folded.parameters.end() && p->name.ends_with(".bias")) continue;
    FOLDGRAD_CHECK(value != folded.parameters.end() && value->second.shape() == p->value.shape(),
                   "fold: the folded model needs a parameter {} {}", p->name, p->value.shape());
    p->value.copy_from(value->second.to(p->value.dtype()));
  }
  const NamedTensors state = model.state();
  for (auto&& [name, tensor] : result.model->state()) tensor.copy_from(state.at(name));
  return result;
}

void set_normalizers_left(BlockConfig& config, const Model& model, const FoldedGraph& folded) {
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
}

}  // namespace foldgrad
