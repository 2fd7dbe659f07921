// Draws a graph as text for graphviz: `dot -Tsvg`.
#pragma once
#include <map>

#include "engine/graph/graph.h"

namespace foldgrad {

struct TitledGraph {
  std::string title;
  const Graph& graph;
  std::map<std::string, std::string> normalizers;  // by site: its label in the picture
};

// Returns the graphs next to each other, each with its title. Normalizers are coloured, weights are in the boxes of
// their readers, and every box has its scope as a tooltip.
std::string graph_dot(const std::vector<TitledGraph>& graphs);

}  // namespace foldgrad
