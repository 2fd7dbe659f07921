// Folding a model: the result is a model of the same family, whose configuration says what is left of normalizers.
//
//   offline:  normalizer = "none"; where a map must stay, normalizer_at names "affine", "scale" (no B) or "centernorm"
//             at the site, or at SUBLAYER.residual, where it acts on the stream on its way into the sum alone.
//   online:   the same normalizer with gain 1 and bias 0 wherever these could be folded.
#pragma once
#include "models/blocks/config.h"
#include "models/fold/fold.h"
#include "models/model.h"

namespace foldgrad {

struct FoldedModel {
  std::unique_ptr<Model> model;  // of the original's dtype and device; computed in f64, rounded once
  std::vector<SiteReport> reports;
};

FoldedModel fold(Model& model, const FoldOptions& options = {});

// Records the forward pass at inference with the smallest inputs. The sites are the model's.
Graph graph_of(Model& model);
// Describes one site. `norm` is applied to zeros of this dtype and device, its model's, to see its operations.
FoldSite fold_site(Normalizer& norm, DType dtype, Device device);

// Writes into `config`, that of `model`, what `folded` leaves of its normalizers: for Model::alike().
void set_normalizers_left(BlockConfig& config, const Model& model, const FoldedGraph& folded);

}  // namespace foldgrad
