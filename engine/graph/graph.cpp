#include "engine/graph/graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/contains.h"

namespace foldgrad {
namespace {

// Adds `node` to a normalizer: appends the node's operands from outside, and makes its result the normalizer's result.
void absorb(GraphNode& normalizer, const GraphNode& node, std::set<int>& inner) {
  for (int operand : node.operands)
    if (!inner.count(operand) && !contains(normalizer.operands, operand)) normalizer.operands.push_back(operand);
  normalizer.result = node.result;
  normalizer.parts += (normalizer.parts.empty() ? "" : " ") + node.kind;
  normalizer.description.training |= node.description.training;
  inner.insert(node.result);
}

std::vector<GraphValue> values_of(const Tape& tape) {
  std::vector<GraphValue> values;
  std::map<const void*, std::string> by_storage;
  for (int id = 0; id < tape.values(); ++id) {
    const Parameter* p = tape.parameter_of(id);
    values.push_back({tape.shape_of(id), p ? by_storage.emplace(p->value.raw(), p->name).first->second : ""});
  }
  return values;
}

}  // namespace

Graph graph_of(const Tape& tape, const std::vector<Var>& results, const std::vector<std::string>& sites) {
  Graph graph;
  graph.values = values_of(tape);
  std::set<int> inner;  // results of nodes in the current normalizer
  for (const auto& recorded : tape.nodes()) {
    const GraphNode node{recorded->name(),   recorded->scope(),          recorded->inputs(),
                         recorded->output(), Description::of(*recorded), recorded};
    const std::string& weight = graph.values[node.operands[0]].parameter;
    if (!weight.empty() && node.description.numbers == Description::Numbers::same) {
      graph.values[node.result].parameter = weight;
      continue;
    }
    if (!contains(sites, node.scope)) {
      graph.nodes.push_back(node);
      continue;
    }
    if (graph.nodes.empty() || graph.nodes.back().kind != kNormalizer || graph.nodes.back().scope != node.scope) {
      graph.nodes.push_back({kNormalizer, node.scope, {}, -1, {}});
      inner.clear();
    }
    absorb(graph.nodes.back(), node, inner);
  }
  // Makes x the first operand: the result of another node or, if there is none, a value that is not a parameter.
  std::set<int> computed;
  for (GraphNode& node : graph.nodes) {
    const auto rank = [&](int v) { return computed.count(v) ? 0 : graph.values[v].parameter.empty() ? 1 : 2; };
    if (node.kind == kNormalizer) std::ranges::stable_sort(node.operands, std::ranges::less{}, rank);
    computed.insert(node.result);
  }
  for (const Var& v : results) graph.results.push_back(v.id());
  return graph;
}

std::vector<GraphUse> Graph::uses(int value) const {
  std::vector<GraphUse> all;
  for (int n = 0; n < int(nodes.size()); ++n)
    for (int k = 0; k < int(nodes[n].operands.size()); ++k)
      if (nodes[n].operands[k] == value) all.push_back({n, k});
  return all;
}

std::vector<GraphUse> Graph::uses_of(const std::string& name) const {
  std::vector<GraphUse> all;
  for (int n = 0; n < int(nodes.size()); ++n)
    for (int k = 0; k < int(nodes[n].operands.size()); ++k)
      if (parameter(n, k) == name) all.push_back({n, k});
  return all;
}

int Graph::producer(int value) const {
  for (int n = 0; n < int(nodes.size()); ++n)
    if (nodes[n].result == value) return n;
  return -1;
}

bool Graph::returned(int value) const { return contains(results, value); }

const std::string& Graph::parameter(int node, int operand) const {
  static const std::string kNone;
  const std::vector<int>& operands = nodes[node].operands;
  return operand < int(operands.size()) ? values[operands[operand]].parameter : kNone;
}

std::string Graph::describe(const GraphUse& use) const {
  const GraphNode& node = nodes[use.node];
  if (node.kind == kNormalizer) return node.scope;
  return node.scope.empty() ? node.kind : node.scope + ": " + node.kind;
}

}  // namespace foldgrad
