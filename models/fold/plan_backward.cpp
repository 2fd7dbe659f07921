// Plans folds into the layer or table before a normalizer [FOLD-3]. Rejects a normalizer if its recorded operations
// differ from the operations that its site declares.
#include <algorithm>

#include "models/fold/plan.h"

namespace foldgrad {
namespace {

bool read_once(const Graph& graph, int node, int operand) {
  const std::string& name = graph.parameter(node, operand);
  return !name.empty() && graph.uses_of(name).size() == 1;
}

}  // namespace

std::string unknown_recording(const FoldState& state, int n) {
  const Graph& graph = state.graph;
  const GraphNode& node = graph.nodes[n];
  const FoldSite& site = state.sites.at(node.scope);
  const bool known = !site.recording.empty();
  if (known && node.description.training) return "the normalizer was recorded in training, where it has statistics";
  if (!known || node.parts != site.recording)
    return "folding does not support the normalizer's recorded operations: " + node.parts;
  const auto applied = std::ranges::count_if(
      graph.nodes, [&](const GraphNode& other) { return other.kind == kNormalizer && other.scope == node.scope; });
  if (applied != 1) return "the normalizer is applied " + std::to_string(applied) + " times";
  for (std::size_t k = 1; k < node.operands.size(); ++k)
    for (const GraphUse& use : graph.uses_of(graph.parameter(n, int(k))))
      if (use.node != n && !graph.parameter(n, int(k)).empty())
        return "the normalizer's parameter " + graph.parameter(n, int(k)) + " is also read by " + graph.describe(use);
  return "";
}

std::optional<BackwardFold> plan_backward(const FoldState& state, int node) {
  const Graph& graph = state.graph;
  BackwardFold fold;
  int value = graph.nodes[node].operands[0];
  const std::int64_t C = graph.values[value].shape[-1];
  bool moved = false;
  for (;;) {
    const int p = graph.producer(value);
    if (p < 0 || graph.uses(value).size() != 1 || graph.returned(value)) return std::nullopt;
    const GraphNode& producer = graph.nodes[p];
    const Description& d = producer.description;
    const bool only_bias = d.weight < 0 && d.bias >= 0 && !d.activates && d.streams.empty();
    value = producer.operands[0];
    if (d.activates) {
      return std::nullopt;
    } else if (d.numbers != Description::Numbers::computed) {
      if (graph.values[value].shape[-1] % C != 0 || graph.result_shape(p)[-1] % C != 0) return std::nullopt;
      moved = moved || graph.values[value].shape[-1] != graph.result_shape(p)[-1];
    } else if (only_bias && fold.bias.empty() && read_once(graph, p, d.bias)) {
      fold.bias = graph.parameter(p, d.bias);
    } else if (d.positions >= 0 && !moved && fold.positions.empty() && read_once(graph, p, d.positions)) {
      fold.positions = graph.parameter(p, d.positions);
    } else if (d.weight >= 0 && read_once(graph, p, d.weight) && fold.positions.empty()) {
      fold.weight = graph.parameter(p, d.weight);
      fold.linear = p;
      if (producer.operands.size() == 2) return fold;
      if (!fold.bias.empty() || !read_once(graph, p, 2)) return std::nullopt;
      fold.bias = graph.parameter(p, 2);
      return fold;
    } else if (d.table >= 0 && !moved && fold.bias.empty() && read_once(graph, p, d.table)) {
      fold.weight = graph.parameter(p, d.table);
      fold.scale = d.scale;
      return fold;
    } else {
      return std::nullopt;
    }
  }
}

}  // namespace foldgrad
