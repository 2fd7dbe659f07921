#include "models/fold/graph_dot.h"

#include <fmt/format.h>

#include <utility>

namespace foldgrad {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// Returns the label and the colour of a node.
std::pair<std::string, const char*> look_of(const TitledGraph& g, int n) {
  const GraphNode& node = g.graph.nodes[n];
  if (node.kind == kNormalizer) {
    const auto name = g.normalizers.find(node.scope);
    return {
        fmt::format("{}\\n{}", escaped(name == g.normalizers.end() ? node.parts : name->second), escaped(node.scope)),
        "orange"};
  }
  std::string weights;
  for (std::size_t k = 0; k < node.operands.size(); ++k)
    if (const std::string& name = g.graph.parameter(n, int(k)); !name.empty()) weights += "\\n" + escaped(name);
  const bool layer = node.description.weight >= 0 || node.description.table >= 0;
  return {escaped(node.kind) + weights, layer ? "lightsteelblue1" : "white"};
}

}  // namespace

std::string graph_dot(const std::vector<TitledGraph>& graphs) {
  std::string text = "digraph forward {\n  node [shape=box style=\"filled,rounded\" fontname=Helvetica fontsize=10]\n";
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const Graph& graph = graphs[i].graph;
    text += fmt::format("  subgraph cluster_{} {{\n    label=\"{}\" fontname=Helvetica fontsize=18 color=gray\n", i,
                        escaped(graphs[i].title));
    for (int n = 0; n < int(graph.nodes.size()); ++n) {
      const auto [label, colour] = look_of(graphs[i], n);
      text += fmt::format("    g{}n{} [label=\"{}\" fillcolor={} tooltip=\"{}\"]\n", i, n, label, colour,
                          escaped(graph.nodes[n].scope));
    }
    for (int n = 0; n < int(graph.nodes.size()); ++n)
      for (int value : graph.nodes[n].operands)
        if (const int from = graph.producer(value); from >= 0)
          text += fmt::format("    g{}n{} -> g{}n{}\n", i, from, i, n);
    text += "  }\n";
  }
  return text + "}\n";
}

}  // namespace foldgrad
