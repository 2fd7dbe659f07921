// Plans how to fold one normalizer: follows the edges from its result to the layers that read it. Changes nothing yet.
#pragma once
#include <optional>

#include "models/fold/fold.h"

namespace foldgrad {

// Folds maps into the columns of a weight [out, in]; each map has a place.
struct LinearFold {
  std::string weight, bias;  // name of the bias, which is created if it does not exist
  std::string copy;          // the name of a copy of the weight to change instead; empty if the weight itself changes
  std::vector<int> nodes;    // the nodes that read the copy or get the bias
  std::vector<ChannelMap> maps;
};

struct Composition {
  std::string site;  // the site with the later map
  AffineMap map;
};

// The branch W h + b of a sum; its stream stays divided by A.
struct BranchRescale {
  std::string weight, bias;
  std::vector<double> A;
};

struct FoldPlan {
  std::vector<LinearFold> linears;
  std::vector<Composition> compositions;
  std::vector<BranchRescale> branches;
  std::vector<std::string> residuals;  // scopes of sums that get the map on their stream
  std::vector<KeptEdge> kept;          // the edges into these sums
  std::vector<KeptEdge> refused;       // if not empty, the plan cannot be carried out
  bool only_tied = false;              // true if every refusal is about a weight that another operation also reads

  bool possible() const { return refused.empty() && (!linears.empty() || !compositions.empty()); }
};

struct FoldState {
  Graph graph;  // with the copies of weights and the biases made so far
  FoldOptions options;
  std::map<std::string, FoldSite> sites = {};  // with the maps composed so far
  NamedTensors parameters = {};                // f64, with the folds so far
  std::set<std::string> created = {};
};

// Returns the reason why a normalizer's recording contradicts its site. Empty if they agree.
std::string unknown_recording(const FoldState& state, int node);

// Plans [FOLD-1] [FOLD-2] [FOLD-4] [FOLD-5] with `map` pending at the result of `node`.
FoldPlan plan_forward(const FoldState& state, int node, const AffineMap& map);

// [FOLD-3]: folds into the linear layer or embedding table before the normalizer.
struct BackwardFold {
  std::string weight;     // its rows if [out, in]; its columns if a table [rows, C]
  std::string bias;       // of a linear layer; created if there is none of this name
  std::string positions;  // a table of positions that is added to the embeddings
  int linear = -1;        // the node; -1 for a table
  double scale = 1;       // of the embeddings
};
// Plans [FOLD-3]; returns nothing if it is impossible.
std::optional<BackwardFold> plan_backward(const FoldState& state, int node);

}  // namespace foldgrad
