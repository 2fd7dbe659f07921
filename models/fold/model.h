// Folds a model: the result is a model of the same family, whose configuration has the remaining maps.
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
  std::unique_ptr<Model> model;  // with the original's dtype and device; computed in f64, rounded once
  std::vector<SiteReport> reports;
};

FoldedModel fold(Model& model, const FoldOptions& options = {});

// Records the forward pass at inference with the smallest inputs. The model's normalizers are the sites.
Graph graph_of(Model& model);
// Returns the site of `norm`. Applies it to zeros of the model's dtype and device to see its operations.
FoldSite fold_site(Normalizer& norm, DType dtype, Device device);

// Changes `config`, `model`'s configuration, to the normalizers that `folded` leaves; for Model::alike().
void set_normalizers_left(BlockConfig& config, const Model& model, const FoldedGraph& folded);

}  // namespace foldgrad
