// Folds a model's normalizers. The result is of the same family; its configuration lists the maps that remain.
//
//   offline:  normalizer becomes "none". If a map must stay, normalizer_at has "affine", "scale" (no B) or "centernorm"
//             at the map's site, or at SUBLAYER.residual if the map acts only on the stream on its way into the sum.
//   online:   the normalizer stays, with gain 1 and bias 0 at all sites where gain and bias could be folded.
#pragma once
#include "models/blocks/config.h"
#include "models/fold/fold.h"
#include "models/model.h"

namespace foldgrad {

struct FoldedModel {
  std::unique_ptr<Model> model;  // has the original's dtype and device; weights are computed in f64, then rounded once
  std::vector<SiteReport> reports;
};

FoldedModel fold(Model& model, const FoldOptions& options = {});

// Records an inference forward pass on the smallest inputs that the model accepts. The sites of the graph are the
// model's normalizers.
Graph graph_of(Model& model);
// Returns the site of `norm`. Records the operations of `norm` by applying it to zeros of the given dtype and device.
FoldSite fold_site(Normalizer& norm, DType dtype, Device device);

// Replaces the normalizers in `config`, a copy of `model`'s configuration, with the normalizers that remain in
// `folded`. Model::alike() calls this function.
void set_normalizers_left(BlockConfig& config, const Model& model, const FoldedGraph& folded);

}  // namespace foldgrad
