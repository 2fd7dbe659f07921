#include "models/fold/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/contains.h"

namespace foldgrad {
namespace {

struct Bias {
  std::string name;  // empty if there is no bias
  int node = -1;     // the node that adds the bias
};

// Returns the layer's own bias, which folding may have added, or the bias that the only reader of its result adds.
Bias bias_of(const Graph& graph, int layer) {
  const GraphNode& node = graph.nodes[layer];
  if (node.operands.size() > 2) return {graph.parameter(layer, 2), layer};
  if (node.description.activates) return {};
  const auto uses = graph.uses(node.result);
  if (uses.size() != 1 || uses[0].operand != 0 || graph.returned(node.result)) return {};
  const Description& reader = graph.nodes[uses[0].node].description;
  if (reader.weight >= 0 || reader.bias < 0) return {};
  return {graph.parameter(uses[0].node, reader.bias), uses[0].node};
}

// Returns the operand that a sum adds to its stream. `use` is the sum's use of the stream. The operands of a sum are
// (a, b) or (branch, bias, stream).
int branch_of(const GraphUse& use) { return use.operand == 0 ? 1 : 0; }

// Returns true for a product with a matrix, false for a convolution.
bool is_linear(const Graph& graph, int node) {
  const Description& d = graph.nodes[node].description;
  return d.weight >= 0 && graph.shape({node, d.weight}).rank() == 2;
}

std::string without_suffix(const std::string& name, const std::string& suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

// Follows a map from the result of the normalizer at node `site` along every edge, and plans a fold at each end.
class Walk {
 public:
  Walk(const FoldState& state, int site) : state_(state), graph_(state.graph), site_(site) {}

  void follow(int value, const ChannelMap& pending) {
    if (graph_.returned(value)) refuse("the result", "the value is returned, so it must not change");
    for (const GraphUse& use : graph_.uses(value)) visit(use, pending);
  }
  FoldPlan finish();

 private:
  struct Reached {
    int node;
    std::vector<ChannelMap> maps;
  };

  std::string edge(const std::string& to) const { return graph_.nodes[site_].scope + " -> " + to; }
  void refuse(const std::string& to, const std::string& reason) { plan_.refused.push_back({edge(to), reason}); }
  void refuse(const GraphUse& use, const std::string& reason) { refuse(graph_.describe(use), reason); }

  void visit(const GraphUse& use, const ChannelMap& pending);
  // These plan a fold, or record a refusal, where the map reaches a layer, another normalizer or a sum.
  void reach_layer(const GraphUse& use, ChannelMap pending);
  void reach_normalizer(const GraphUse& use, const ChannelMap& pending);
  void reach_sum(const GraphUse& use, const ChannelMap& pending);
  std::string rescale(const GraphUse& use, const ChannelMap& pending);
  void finish_weight(const std::string& weight);
  bool finish_bias(LinearFold& fold, bool alone);

  const FoldState& state_;
  const Graph& graph_;
  int site_;
  std::vector<Reached> reached_;
  FoldPlan plan_;
  std::size_t tied_ = 0;  // number of refusals caused by another reader of a weight
};

void Walk::visit(const GraphUse& use, const ChannelMap& pending) {
  const GraphNode& node = graph_.nodes[use.node];
  if (node.description.weight >= 0) return reach_layer(use, pending);
  if (node.kind == kNormalizer) return reach_normalizer(use, pending);
  if (!node.description.streams.empty()) return reach_sum(use, pending);
  ChannelMap next = pending;
  const std::string reason = node.description.passes(graph_, use, next);
  if (!reason.empty()) return refuse(use, reason);
  follow(node.result, next);
}

void Walk::reach_layer(const GraphUse& use, ChannelMap pending) {
  const GraphNode& node = graph_.nodes[use.node];
  if (use.operand != 0) return refuse(use, "the value is used as a weight or bias");
  if (graph_.parameter(use.node, 1).empty()) return refuse(use, "the layer's weight is not a parameter");
  if (pending.place.axis != graph_.values[node.operands[0]].shape.rank() - 1)
    return refuse(use, "the layer's weight does not multiply the channel axis");
  if (graph_.values[node.operands[0]].shape[-1] != graph_.values[node.operands[1]].shape[1])
    return refuse(use, "the convolution has groups, so a row of its weight covers only some of the channels");
  if (node.description.pads && pending.map.adds())
    return refuse(use, "the convolution pads with zeros, but folding would pad with the map's bias B");
  const std::int64_t kernel = graph_.values[node.operands[1]].shape.stride(1);  // 1 unless the layer is a convolution
  // Here `place` changes from channels of the operand to columns of the weight.
  pending.place = {pending.place.axis, pending.place.offset * kernel, pending.place.repeat * kernel};
  for (Reached& r : reached_)
    if (r.node == use.node) return r.maps.push_back(pending);
  reached_.push_back({use.node, {pending}});
}

void Walk::reach_normalizer(const GraphUse& use, const ChannelMap& pending) {
  const GraphNode& node = graph_.nodes[use.node];
  const auto found = state_.sites.find(node.scope);
  if (found == state_.sites.end() || use.operand != 0)
    return refuse(use, "this is not a normalizer site that folding supports");
  const FoldSite& next = found->second;
  const std::string unknown = unknown_recording(state_, use.node);
  if (!unknown.empty()) return refuse(use, unknown);
  if (!next.offline) return refuse(use, "this normalizer has statistics, or is not an affine map");
  if (next.map.centered) return refuse(use, "this normalizer mixes the channels");
  if (!pending.whole(graph_.values[node.operands[0]].shape))
    return refuse(use, "the map covers only some of the channels");
  AffineMap both = pending.map;  // [FOLD-4]
  for (std::int64_t c = 0; c < both.channels(); ++c) {
    both.A[c] *= next.map.A[c];
    both.B[c] = next.map.A[c] * both.B[c] + next.map.B[c];
  }
  plan_.compositions.push_back({next.name, std::move(both)});
}

void Walk::reach_sum(const GraphUse& use, const ChannelMap& pending) {
  const GraphNode& node = graph_.nodes[use.node];
  if (node.description.dropout != 0) return refuse(use, "the recorded pass has dropout; record one at inference");
  if (!contains(node.description.streams, use.operand)) return refuse(use, "the value is the branch of a sum");
  if (node.operands[branch_of(use)] == node.operands[use.operand])
    return refuse(use, "the value is both operands of a sum");
  std::string reason = "the sum and all later readers of the stream need the map";
  if (state_.options.rescale_stream) {
    reason = rescale(use, pending);
    if (reason.empty()) return;
  }
  if (!state_.sites.at(graph_.nodes[site_].scope).offline) return refuse(use, reason);
  if (node.operands[use.operand] != graph_.nodes[site_].result)
    return refuse(use, "the sum does not add the normalizer's own result");
  const auto sums = std::ranges::count_if(graph_.nodes, [&](const GraphNode& other) {
    return other.scope == node.scope && !other.description.streams.empty();
  });
  if (sums != 1)
    return refuse(use, "the scope of this sum contains another sum, so it is ambiguous where the map belongs");
  plan_.residuals.push_back(node.scope);
  plan_.kept.push_back({edge(graph_.describe(use)), reason});
}

// Plans to rescale a branch [FOLD-5]. Returns an empty string, or the reason why that is impossible.
std::string Walk::rescale(const GraphUse& use, const ChannelMap& pending) {
  const GraphNode& node = graph_.nodes[use.node];
  if (pending.map.centered) return "the stream cannot be rescaled: the map mixes the channels";
  if (!pending.whole(graph_.values[node.result].shape))
    return "the stream cannot be rescaled: the map covers only part of the stream";
  for (std::int64_t c = 0; c < pending.map.channels(); ++c)
    if (const double a = std::abs(pending.map.A[c]); !(a >= 1e-30 && a <= 1e30))
      return fmt::format("the stream cannot be rescaled: it would be divided by A = {:.3g} in channel {}",
                         pending.map.A[c], c);
  const int branch = node.operands[branch_of(use)], linear = graph_.producer(branch);
  if (linear < 0 || !is_linear(graph_, linear) || graph_.uses(branch).size() != 1 || graph_.returned(branch))
    return "the stream cannot be rescaled: the added branch is not the direct result of a linear layer";
  const std::string &weight = graph_.parameter(linear, 1), bias = bias_of(graph_, linear).name;
  const bool own = !weight.empty() && graph_.uses_of(weight).size() == 1 &&
                   (bias.empty() ? node.description.bias < 0 && graph_.nodes[linear].operands.size() == 2
                                 : graph_.uses_of(bias).size() == 1);
  const bool read = std::ranges::any_of(reached_, [&](const Reached& r) { return r.node == linear; });
  if (!own || read)
    return "the stream cannot be rescaled: " + weight + " is used elsewhere, or its layer reads the stream directly";
  Walk beyond = *this;
  ChannelMap next = pending;
  if (!bias.empty())
    for (std::int64_t c = 0; c < next.map.channels(); ++c)
      next.map.B[c] += state_.parameters.at(bias).data<double>()[c];
  beyond.follow(node.result, next);
  if (beyond.plan_.refused.size() > plan_.refused.size()) {
    const KeptEdge& first = beyond.plan_.refused[plan_.refused.size()];
    return fmt::format("the stream cannot be rescaled because of {}: {}", first.edge, first.reason);
  }
  reached_ = beyond.reached_;
  plan_ = beyond.plan_;
  plan_.branches.push_back({weight, bias, pending.map.A});
  return "";
}

FoldPlan Walk::finish() {
  std::vector<std::string> weights;
  for (const Reached& r : reached_) {
    const std::string& weight = graph_.parameter(r.node, 1);
    if (!contains(weights, weight)) weights.push_back(weight);
  }
  for (const std::string& weight : weights) finish_weight(weight);
  for (const BranchRescale& branch : plan_.branches)
    if (contains(weights, branch.weight))
      refuse(branch.weight, "the layer of this weight is in a branch and reads the stream directly");
  plan_.only_tied = tied_ > 0 && tied_ == plan_.refused.size();
  return std::move(plan_);
}

// Plans how a weight changes. All linear layers that share it change together.
void Walk::finish_weight(const std::string& weight) {
  LinearFold fold;
  fold.weight = weight;
  for (const Reached& r : reached_) {
    if (graph_.parameter(r.node, 1) != weight) continue;
    if (fold.nodes.empty()) fold.maps = r.maps;
    if (fold.maps != r.maps) return refuse(GraphUse{r.node, 0}, weight + " is used with two different maps");
    fold.nodes.push_back(r.node);
  }
  const auto any = [&](bool (AffineMap::*what)() const) {
    return std::ranges::any_of(fold.maps, [&](const ChannelMap& w) { return (w.map.*what)(); });
  };
  const auto uses = graph_.uses_of(weight);
  const auto other = std::ranges::find_if(
      uses, [&](const GraphUse& use) { return use.operand != 1 || !contains(fold.nodes, use.node); });
  const GraphNode& first = graph_.nodes[fold.nodes[0]];
  if (other != uses.end() && any(&AffineMap::scales)) {
    if (state_.options.tied != FoldOptions::Tied::untie) {
      ++tied_;
      return refuse(GraphUse{fold.nodes[0], 0},
                    fmt::format("the layer's weight {} is also read by {}", weight, graph_.describe(*other)));
    }
    fold.copy = first.scope + ".weight";
    if (state_.parameters.count(fold.copy))
      return refuse(GraphUse{fold.nodes[0], 0},
                    "a copy of the layer's weight would need the name " + fold.copy + ", which is taken");
  }
  if (any(&AffineMap::adds) && !finish_bias(fold, other == uses.end())) return;
  plan_.linears.push_back(std::move(fold));
}

bool Walk::finish_bias(LinearFold& fold, bool alone) {
  const GraphUse use{fold.nodes[0], 0};
  const Bias bias = bias_of(graph_, fold.nodes[0]);
  std::vector<int> adders;
  for (int node : fold.nodes) {
    const Bias same = bias_of(graph_, node);
    if (same.name != bias.name || (same.name.empty() && graph_.nodes[node].operands.size() > 2)) {
      refuse(use, "the layer's bias is not a parameter, or the layers that share the weight have different biases");
      return false;
    }
    adders.push_back(same.node);
  }
  if (!bias.name.empty()) {
    for (const GraphUse& adder : graph_.uses_of(bias.name))
      if (!contains(adders, adder.node)) {
        refuse(use, fmt::format("the layer's bias {} is also read by {}", bias.name, graph_.describe(adder)));
        return false;
      }
    fold.bias = bias.name;
    return true;
  }
  // A shared weight may be named after another reader, so the bias is named after this layer.
  const std::string& named = fold.copy.empty() ? fold.weight : fold.copy;
  fold.bias = (alone ? without_suffix(named, ".weight") : graph_.nodes[fold.nodes[0]].scope) + ".bias";
  if (state_.parameters.count(fold.bias)) {
    refuse(use, "the layer has no bias, and the name " + fold.bias + " is taken");
    return false;
  }
  return true;
}

}  // namespace

FoldPlan plan_forward(const FoldState& state, int node, const AffineMap& map) {
  Walk walk(state, node);
  const int value = state.graph.nodes[node].result;
  walk.follow(value, {{state.graph.values[value].shape.rank() - 1}, map});
  return walk.finish();
}

}  // namespace foldgrad
