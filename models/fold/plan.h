// The plan of folding one normalizer, found by following its result; nothing is changed yet.
#pragma once
#include <optional>

#include "models/fold/fold.h"

namespace foldgrad {

// A fold into the columns of a weight [out, in] that the places of `maps` name.
struct LinearFold {
  std::string weight, bias;  // the bias is created when there is none of this name
  std::string copy;          // of the weight, which is to be changed in its place; empty: none
  std::vector<int> nodes;    // that read the copy, or get the bias
  std::vector<ChannelMap> maps;
};

struct Composition {
  std::string site;  // whose map comes after
  AffineMap map;
};

// The branch W h + b of a sum whose stream stays divided by A.
struct BranchRescale {
  std::string weight, bias;
  std::vector<double> A;
};

struct FoldPlan {
  std::vector<LinearFold> linears;
  std::vector<Composition> compositions;
  std::vector<BranchRescale> branches;
  std::vector<std::string> residuals;  // scopes of sums that get the map on their stream
  std::vector<KeptEdge> kept;          // the edges into these
  std::vector<KeptEdge> refused;       // not empty: the plan cannot be carried out
  bool only_tied = false;              // all refusals are of weights that something else reads

  bool possible() const { return refused.empty() && (!linears.empty() || !compositions.empty()); }
};

struct FoldState {
  Graph graph;  // with copies of weights and new biases as they are made
  FoldOptions options;
  std::map<std::string, FoldSite> sites = {};  // with maps as composed so far
  NamedTensors parameters = {};                // f64, as folded so far
  std::set<std::string> created = {};
};

// Returns why the recording of a normalizer cannot be what its site says; empty when it can.
std::string unknown_recording(const FoldState& state, int node);

// Plans [FOLD-1] [FOLD-2] [FOLD-4] [FOLD-5] with `map` pending at the result of `node`.
FoldPlan plan_forward(const FoldState& state, int node, const AffineMap& map);

// [FOLD-3]: into the linear layer or the table of embeddings before the normalizer.
struct BackwardFold {
  std::string weight;     // [out, in], its rows; of a table [rows, C], its columns
  std::string bias;       // of a linear layer; created when there is none of this name
  std::string positions;  // a table of positions that is added to a table of embeddings
  int linear = -1;        // the node; -1: a table
  double scale = 1;       // of the embedding
};
// Plans [FOLD-3]; returns nothing when that cannot be done.
std::optional<BackwardFold> plan_backward(const FoldState& state, int node);

}  // namespace foldgrad
