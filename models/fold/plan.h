// Plans how to fold one normalizer: follows the edges from its result to its readers. Planning changes nothing.
#pragma once
#include <optional>

#include "models/fold/fold.h"

namespace foldgrad {

// A fold of maps into the columns of a weight [out, in]. Each map applies to the columns at its ChannelMap::place.
struct LinearFold {
  std::string weight, bias;  // names; the bias is created if it does not exist
  std::string copy;          // the name of a copy of the weight to change instead; empty if the weight itself changes
  std::vector<int> nodes;    // the nodes that read the copy or receive the bias
  std::vector<ChannelMap> maps;
};

struct Composition {
  std::string site;  // the site with the later map
  AffineMap map;
};

// A branch W h + b that must be divided by A, since the stream to which it is added is stored divided by A.
struct BranchRescale {
  std::string weight, bias;
  std::vector<double> A;
};

struct FoldPlan {
  std::vector<LinearFold> linears;
  std::vector<Composition> compositions;
  std::vector<BranchRescale> branches;
  std::vector<std::string> residuals;  // scopes of the sums whose stream operand keeps the map
  std::vector<KeptEdge> kept;          // the edges into those sums
  std::vector<KeptEdge> refused;       // the plan is possible only if this is empty
  bool only_tied = false;              // every refusal is due to a weight that another operation also reads

  bool possible() const { return refused.empty() && (!linears.empty() || !compositions.empty()); }
};

struct FoldState {
  Graph graph;  // includes the copies and biases made so far
  FoldOptions options;
  std::map<std::string, FoldSite> sites = {};  // their maps include the compositions made so far
  NamedTensors parameters = {};                // f64; includes the folds made so far
  std::set<std::string> created = {};
};

// Returns the reason why a normalizer's recording cannot be folded as its site declares, or an empty string if it can.
std::string unknown_recording(const FoldState& state, int node);

// Plans [FOLD-1] [FOLD-2] [FOLD-4] [FOLD-5] for `map`, which is pending at the result of `node` (ChannelMap).
FoldPlan plan_forward(const FoldState& state, int node, const AffineMap& map);

// A fold into the linear layer or embedding table before the normalizer [FOLD-3].
struct BackwardFold {
  std::string weight;     // the fold changes rows of a weight [out, in], but columns of a table [rows, C]
  std::string bias;       // bias of the linear layer; created if it does not exist
  std::string positions;  // name of a table of positions that is added to the embeddings
  int linear = -1;        // node of the linear layer; -1 for a table
  double scale = 1;       // factor of the embeddings
};
// Plans [FOLD-3]. Returns std::nullopt if it is impossible.
std::optional<BackwardFold> plan_backward(const FoldState& state, int node);

}  // namespace foldgrad
