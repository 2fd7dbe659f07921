// A graph as text for graphviz: `dot -Tsvg`.
#pragma once
#include <map>

#include "engine/graph/graph.h"

namespace foldgrad {

struct TitledGraph {
  std::string title;
  const Graph& graph;
  std::map<std::string, std::string> normalizers;  // by site: what it is called in the picture
};

// Returns the graphs side by side, each with its title. Normalizers are coloured; weights stand in the boxes of what
// reads them; every box has its place in the model as a tooltip.
std::string graph_dot(const std::vector<TitledGraph>& graphs);

}  // namespace foldgrad
