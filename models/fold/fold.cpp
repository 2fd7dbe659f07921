#include "models/fold/fold.h"

#include <algorithm>

#include "models/fold/weights.h"

namespace foldgrad {
namespace {

using Outcome = SiteReport::Outcome;

// One pass over the sites of a graph, in order.
class Folding {
 public:
  Folding(const Graph& graph, const std::vector<FoldSite>& sites, const NamedTensors& parameters,
          const FoldOptions& options);
  FoldedGraph run();

 private:
  void fold_site(int node);
  void apply(const FoldPlan& plan, const AffineMap& map, SiteReport& report);
  void apply(const LinearFold& fold);
  bool apply_backward(int node, const AffineMap& map, SiteReport& report);
  Tensor create(const std::string& name, Tensor value);
  void give_operand(int node, std::size_t operand, const std::string& parameter);

  FoldState state_;
  FoldedGraph result_;
};

Folding::Folding(const Graph& graph, const std::vector<FoldSite>& sites, const NamedTensors& parameters,
                 const FoldOptions& options)
    : state_{.graph = graph, .options = options} {
  for (const FoldSite& site : sites) state_.sites.emplace(site.name, site);
  for (const auto& [name, value] : parameters) state_.parameters[name] = value.to(DType::f64).clone();
  for (const GraphValue& value : graph.values)
    FOLDGRAD_CHECK(value.parameter.empty() || parameters.count(value.parameter), "fold: there is no parameter {}",
                   value.parameter);
}

FoldedGraph Folding::run() {
  for (int n = 0; n < int(state_.graph.nodes.size()); ++n)
    if (state_.graph.nodes[n].kind == kNormalizer && state_.sites.count(state_.graph.nodes[n].scope)) fold_site(n);
  result_.parameters = std::move(state_.parameters);
  result_.created = std::move(state_.created);
  return std::move(result_);
}

void Folding::fold_site(int n) {
  const GraphNode& node = state_.graph.nodes[n];
  const FoldSite& site = state_.sites.at(node.scope);
  const AffineMap map = site.map;
  const std::int64_t C = state_.graph.values[node.operands[0]].shape[-1];
  FOLDGRAD_CHECK(std::int64_t(map.A.size()) == C && std::int64_t(map.B.size()) == C,
                 "fold: {} must have {} channels, got {} in A and {} in B", site.name, C, map.A.size(), map.B.size());
  SiteReport report{.site = site.name};
  const AffineMap identity = AffineMap::identity(C);
  const auto finish = [&](Outcome outcome) {
    report.outcome = outcome;
    result_.reports.push_back(std::move(report));
  };
  const auto left = [&](const AffineMap& rest) {
    if (!site.offline || rest.scales() || rest.adds()) result_.sites[site.name] = rest;
  };
  const std::string unknown = unknown_recording(state_, n);
  if (!unknown.empty()) {
    report.kept.push_back({site.name, unknown});
    left(map);
    return finish(Outcome::kept);
  }
  const FoldPlan plan = plan_forward(state_, n, map);
  const bool folds = plan.possible() && plan.kept.empty();
  // A layer before the normalizer can take the whole map even where the residual stream would have to keep it.
  if (!folds && site.offline && apply_backward(n, map, report)) return finish(Outcome::folded);
  if (plan.possible()) {
    left(identity);
    apply(plan, map, report);
    return finish(folds ? Outcome::folded : Outcome::partly);
  }
  report.kept = plan.refused;
  report.kept.insert(report.kept.end(), plan.kept.begin(), plan.kept.end());
  if (plan.only_tied && state_.options.tied == FoldOptions::Tied::keep) {
    const AffineMap bias{identity.A, map.B};
    const FoldPlan rest = plan_forward(state_, n, bias);
    if (rest.possible()) {
      left({map.A, identity.B, map.centered});
      apply(rest, bias, report);
      return finish(Outcome::partly);
    }
  }
  if (report.kept.empty()) report.kept.push_back({site.name, "nothing reads its result"});
  left(map);
  finish(Outcome::kept);
}

void Folding::apply(const FoldPlan& plan, const AffineMap& map, SiteReport& report) {
  for (const LinearFold& fold : plan.linears) {
    apply(fold);
    report.into.push_back(fold.copy.empty() ? fold.weight : fold.copy);
  }
  for (const BranchRescale& branch : plan.branches) {
    divide_rows(state_.parameters.at(branch.weight), branch.A);
    if (!branch.bias.empty()) state_.parameters.at(branch.bias).zero();
    report.into.push_back(branch.weight);
  }
  for (const Composition& next : plan.compositions) {
    state_.sites.at(next.site).map = next.map;
    report.into.push_back(next.site);
  }
  for (const std::string& scope : plan.residuals) result_.residuals[scope] = map;
  report.kept.insert(report.kept.end(), plan.kept.begin(), plan.kept.end());
}

void Folding::apply(const LinearFold& fold) {
  Tensor W = state_.parameters.at(fold.weight), b;
  if (!fold.copy.empty()) {
    W = create(fold.copy, W.clone());
    for (int node : fold.nodes) give_operand(node, 1, fold.copy);
  }
  if (!fold.bias.empty()) {
    if (const auto known = state_.parameters.find(fold.bias); known != state_.parameters.end()) {
      b = known->second;
    } else {
      b = create(fold.bias, Tensor::zeros({W.shape()[0]}, DType::f64));
      for (int node : fold.nodes) give_operand(node, 2, fold.bias);
    }
  }
  const bool scales = std::ranges::any_of(fold.maps, [](const ChannelMap& w) { return w.map.scales(); });
  // fold_columns() writes W even if no map scales it. In that case it gets a copy, so that a W that other layers share
  // is not written.
  fold_columns(scales ? W : W.clone(), b, fold.maps);
}

bool Folding::apply_backward(int n, const AffineMap& map, SiteReport& report) {
  const std::optional<BackwardFold> fold = plan_backward(state_, n);
  if (!fold) return false;
  const Tensor W = state_.parameters.at(fold->weight);
  if (fold->linear < 0) {
    fold_table(W, map, fold->positions.empty() ? 1 / fold->scale : 0);
    if (!fold->positions.empty()) fold_table(state_.parameters.at(fold->positions), map, 1);
  } else {
    if (!fold->bias.empty()) {
      fold_table(state_.parameters.at(fold->bias), map, 1);
    } else if (map.adds()) {
      const std::string name = fold->weight.substr(0, fold->weight.rfind(".weight")) + ".bias";
      if (state_.parameters.count(name)) return false;
      fold_table(create(name, Tensor::zeros({W.shape()[0]}, DType::f64)), map, 1);
      give_operand(fold->linear, 2, name);
    }
    fold_rows(W, map);
  }
  report.into.push_back(fold->weight);
  if (!fold->positions.empty()) report.into.push_back(fold->positions);
  return true;
}

Tensor Folding::create(const std::string& name, Tensor value) {
  state_.created.insert(name);
  return state_.parameters[name] = std::move(value);
}

// Sets an operand in the graph, so that later sites see the layer's current state.
void Folding::give_operand(int node, std::size_t operand, const std::string& parameter) {
  Graph& graph = state_.graph;
  graph.values.push_back({state_.parameters.at(parameter).shape(), parameter});
  std::vector<int>& operands = graph.nodes[node].operands;
  operands.resize(std::max(operands.size(), operand + 1));
  operands[operand] = int(graph.values.size()) - 1;
}

}  // namespace

FoldedGraph fold(const Graph& graph, const std::vector<FoldSite>& sites, const NamedTensors& parameters,
                 const FoldOptions& options) {
  return Folding(graph, sites, parameters, options).run();
}

}  // namespace foldgrad
