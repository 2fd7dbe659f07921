// Folds the normalizers of a model. The result is a model of the same family; the maps that could not be folded are in
// its configuration.
//
//   offline:  normalizer = "none". If a map must stay, normalizer_at has "affine", "scale" (no B) or "centernorm" at
//             its site, or at SUBLAYER.residual if it acts only on the stream on its way into the sum.
//   online:   the same normalizer with gain 1 and bias 0 at all sites where these could be folded.
#pragma once
#include "models/blocks/config.h"
#include "models/fold/fold.h"
#include "models/model.h"

namespace foldgrad {

struct FoldedModel {
  std::unique_ptr<Model> model;  // has the original's dtype and device; weights are computed in f64 and rounded once
  std::vector<SiteReport> reports;
};

FoldedModel fold(Model& model, const FoldOptions& options = {});

// Records the forward pass at inference with the smallest inputs. The graph's sites are the model's normalizers.
Graph graph_of(Model& model);
// Returns the site of `norm`. Applies it to zeros of the model's dtype and device to see its operations.
FoldSite fold_site(Normalizer& norm, DType dtype, Device device);

// Changes `config`, `model`'s configuration, so that it has the normalizers that `folded` leaves. Model::alike() uses
// it.
void set_normalizers_left(BlockConfig& config, const Model& model, const FoldedGraph& folded);

}  // namespace foldgrad
