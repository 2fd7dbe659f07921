// Describes graphs in the DOT language of graphviz, for `dot -Tsvg`.
#pragma once
#include <map>

#include "engine/graph/graph.h"

namespace foldgrad {

struct TitledGraph {
  std::string title;
  const Graph& graph;
  std::map<std::string, std::string> normalizers;  // the label of each site
};

// Returns the graphs next to each other, each with its title. Normalizers are coloured, a weight is shown in the box of
// the operation that reads it, and the tooltip of a box is its scope.
std::string graph_dot(const std::vector<TitledGraph>& graphs);

}  // namespace foldgrad
