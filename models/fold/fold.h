// Folding: normalizers that are affine maps at inference vanish into the linear layers around them.
//
//   [FOLD-1]  forward, y = A x + B read by a linear layer:   W' = W diag(A)          b' = b + W B   (the old W)
//   [FOLD-2]  centred, y = A (x - mean x) + B:               W' = W diag(A) (I - J)  b' = b + W B   J_cd = 1 / C
//   [FOLD-3]  backward, y = A (W x + b) + B:                 W' = diag(A) W          b' = A b + B
//   [FOLD-4]  a map followed by a map:                       A2 (A x + B) + B2 = (A2 A) x + (A2 B + B2)
//   [FOLD-5]  a sum that reads y = A u + B, stored as u' = u + h / A:
//                                                            A u + B + (W h + b) = A u' + (B + b),  W' = diag(1/A) W,
//                                                            b' = 0
//
//   Everything in f64. Folding works on a recorded forward pass. A map is pending at the result of its normalizer and
//   is propagated along every edge that leaves it; it is folded only when each of them ends in a linear layer, whose
//   weight nobody else reads. All else is refused, and the edge is named. docs/folding.md lists what folds where, and
//   why.
#pragma once
#include <set>

#include "engine/graph/graph.h"
#include "engine/named_tensors.h"

namespace foldgrad {

// A normalizer of the graph. Offline: it is `map`. Otherwise it is `map` after a statistic or function that stays:
// A is its gain, B its bias.
struct FoldSite {
  std::string name;  // the scope of its operations
  bool offline = true;
  AffineMap map;
  // GraphNode::parts at inference. A site that was recorded otherwise is not folded, nor is one without parts.
  std::string recording = "";
};

struct FoldOptions {
  // A weight that something else reads too, as an output projection that is also the table of embeddings: refuse; fold
  // into a copy; or keep A at the site as a gain per channel, and fold B alone.
  enum class Tied { refuse, untie, keep } tied = Tied::refuse;
  // Sums after post-norm: keep the map on the edge into the sum, or store the stream divided by A [FOLD-5], which
  // needs that no A is 0.
  bool rescale_stream = false;
};

struct KeptEdge {
  std::string edge, reason;  // "encoder.layer_norm -> decoder.layers.0.encoder_attn: linear"
};

struct SiteReport {
  // partly: all but what `kept` names. kept: the site is as it was.
  enum class Outcome { folded, partly, kept };

  std::string site;
  Outcome outcome = Outcome::kept;
  std::vector<std::string> into = {};  // weights, tables and sites
  std::vector<KeptEdge> kept = {};
};

struct FoldedGraph {
  NamedTensors parameters;                     // f64; those of normalizers too, which are now without meaning
  std::set<std::string> created;               // biases that were missing, and copies of tied weights
  std::map<std::string, AffineMap> sites;      // what is left at sites; others have no map any more
  std::map<std::string, AffineMap> residuals;  // by the scope of a sum: what its stream goes through before
  std::vector<SiteReport> reports;             // one per site that the graph has, in its order
};

// Folds the sites of a graph, given all parameters that it names, on the host. Throws std::invalid_argument when one is
// missing or when a map does not have the channels of its site.
FoldedGraph fold(const Graph& graph, const std::vector<FoldSite>& sites, const NamedTensors& parameters,
                 const FoldOptions& options = {});

}  // namespace foldgrad
