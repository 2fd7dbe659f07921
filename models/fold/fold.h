// Folding: normalizers that are affine maps at inference are merged into the linear layers around them.
//
//   [FOLD-1]  forward, y = A x + B read by a linear layer:   W' = W diag(A)          b' = b + W B   (the old W)
//   [FOLD-2]  centred, y = A (x - mean x) + B:               W' = W diag(A) (I - J)  b' = b + W B   J_cd = 1 / C
//   [FOLD-3]  backward, y = A (W x + b) + B:                 W' = diag(A) W          b' = A b + B
//   [FOLD-4]  a map followed by a map:                       A2 (A x + B) + B2 = (A2 A) x + (A2 B + B2)
//   [FOLD-5]  a sum that reads y = A u + B, stored as u' = u + W' h:
//                                                            A u + B + (W h + b) = A u' + (B + b),  W' = diag(1/A) W,
//                                                            b' = 0
//
//   All arithmetic is in f64. Folding works on a recorded forward pass. A map starts at the result of its normalizer
//   and moves along every edge from there. Each path must end in a layer, map or sum that can take the map. A weight
//   that another operation also reads can take the map only if A = 1 (or with FoldOptions::tied). If a path of an
//   offline normalizer is refused, FOLD-3 is tried; if that is impossible too, the normalizer is kept, and the report
//   names the edge. docs/folding.md lists what folds where, and why.
#pragma once
#include <set>

#include "engine/graph/graph.h"
#include "engine/named_tensors.h"
#include "models/options/names.h"

namespace foldgrad {

// A normalizer of the graph. If it is offline, `map` is the whole normalizer. Otherwise `map` consists of the gain A
// and bias B that follow a statistic or function that cannot be folded.
struct FoldSite {
  std::string name;  // the tape scope of the normalizer's operations
  bool offline = true;
  AffineMap map;
  // The GraphNode::parts that the site must have at inference. If the site has other parts, or if this string is empty,
  // the site is not folded.
  std::string recording = "";
};

struct FoldOptions {
  // How to treat a weight that another operation also reads, such as an output projection that is also the embedding
  // table. refuse: leave the map at its site. untie: fold it into a copy of the weight. keep: leave A at the site as a
  // gain per channel, and fold only B.
  enum class Tied { refuse, untie, keep } tied = Tied::refuse;
  // How to treat the residual sums of post-norm. If false, the map stays on the edge into the sum. If true, the stream
  // is stored divided by A [FOLD-5], which requires that no A is 0.
  bool rescale_stream = false;
};
constexpr auto names_of(FoldOptions::Tied) { return std::array{"refuse", "untie", "keep"}; }

struct KeptEdge {
  std::string edge, reason;  // edge is, for example, "encoder.layer_norm -> decoder.layers.0.encoder_attn: linear"
};

struct SiteReport {
  // partly: folded, except for the edges in `kept`. kept: the site is unchanged.
  enum class Outcome { folded, partly, kept };

  std::string site;
  Outcome outcome = Outcome::kept;
  std::vector<std::string> into = {};  // the weights, tables and sites into which the site was folded
  std::vector<KeptEdge> kept = {};
};
constexpr auto names_of(SiteReport::Outcome) { return std::array{"folded", "partly", "kept"}; }

struct FoldedGraph {
  NamedTensors parameters;                     // f64; includes the unused parameters of folded normalizers
  std::set<std::string> created;               // names of new biases and of copies of tied weights
  std::map<std::string, AffineMap> sites;      // the maps that remain at their sites
  std::map<std::string, AffineMap> residuals;  // maps on the stream before a sum, by the scope of the sum
  std::vector<SiteReport> reports;             // one per site of the graph, in the graph's order
};

// Folds the sites of a graph. `parameters` holds every parameter that the graph names, on the host. Throws
// std::invalid_argument if one is missing, or if a map and its site have different numbers of channels.
FoldedGraph fold(const Graph& graph, const std::vector<FoldSite>& sites, const NamedTensors& parameters,
                 const FoldOptions& options = {});

}  // namespace foldgrad
