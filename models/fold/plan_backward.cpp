// [FOLD-3]: what stands before a normalizer, and how its recording is known.
#include <algorithm>

#include "models/fold/layers.h"
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
  if (known && node.arguments != site.arguments) return "it was recorded in training, where it has statistics";
  if (!known || node.parts != site.recording) return "its recording is not one that folding knows: " + node.parts;
  const auto applied = std::ranges::count_if(
      graph.nodes, [&](const GraphNode& other) { return other.kind == kNormalizer && other.scope == node.scope; });
  if (applied != 1) return "it is applied " + std::to_string(applied) + " times";
  for (std::size_t k = 1; k < node.operands.size(); ++k)
    for (const GraphUse& use : graph.uses_of(graph.parameter(n, int(k))))
      if (use.node != n && !graph.parameter(n, int(k)).empty())
        return "its parameter " + graph.parameter(n, int(k)) + " is also read by " + graph.describe(use);
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
    const std::string& kind = producer.kind;
    const Shape &from = graph.values[producer.operands[0]].shape, &to = graph.values[producer.result].shape;
    value = producer.operands[0];
    if (kind == "reshape" && to[-1] % C == 0 && from[-1] % C == 0) {
      moved = true;
    } else if (kind == "permute" && int(producer.arguments.back()) == to.rank() - 1) {
      moved = true;
    } else if (kind == "add_bias" && fold.bias.empty() && read_once(graph, p, 1)) {
      fold.bias = graph.parameter(p, 1);
    } else if (kind == "learned_positions" && !moved && fold.positions.empty() && read_once(graph, p, 1)) {
      fold.positions = graph.parameter(p, 1);
    } else if (is_layer(producer) && !activates(producer) && read_once(graph, p, 1) && fold.positions.empty()) {
      fold.weight = graph.parameter(p, 1);
      fold.linear = p;
      if (producer.operands.size() == 2) return fold;
      if (!fold.bias.empty() || !read_once(graph, p, 2)) return std::nullopt;
      fold.bias = graph.parameter(p, 2);
      return fold;
    } else if (kind == "embedding" && !moved && fold.bias.empty() && read_once(graph, p, 0)) {
      fold.weight = graph.parameter(p, 0);
      fold.scale = producer.arguments[0];
      return fold;
    } else {
      return std::nullopt;
    }
  }
}

}  // namespace foldgrad
