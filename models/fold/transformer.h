// Folding a Transformer: the result is a Transformer again, of which TransformerConfig says what is left of
// normalizers.
//
//   offline:  normalizer = "none"; where a map must stay, normalizer_at names "affine", "scale" (no B) or "centernorm"
//             at the site, or at SUBLAYER.residual, where it acts on the stream on its way into the sum alone.
//   online:   the same normalizer with gain 1 and bias 0 wherever these could be folded.
//   With config.fixnorm the tables hold their rows divided by their lengths, and fixnorm is off.
//   An output projection that was tied gets a table of its own with Tied::untie; it gets a bias with B != 0.
#pragma once
#include <memory>

#include "models/fold/fold.h"
#include "models/transformer/transformer.h"

namespace foldgrad {

struct FoldedTransformer {
  std::unique_ptr<Transformer> model;  // of the original's dtype and device; computed in f64, rounded once
  std::vector<SiteReport> reports;
};

FoldedTransformer fold(Transformer& model, const FoldOptions& options = {});

// The forward pass from ids to logits at inference, as recorded with two short sentences. The sites are the model's.
Graph graph_of(Transformer& model);
std::vector<FoldSite> fold_sites(Transformer& model);

// Logits [B, T, target_vocabulary] at inference, computed in `dtype`, as f64 on the host; rows of padding are zero.
Tensor inference_logits(Transformer& model, const TranslationBatch& batch, DType dtype);

// Greatest difference, and the same over the greatest value of either. NaN on either side gives NaN.
struct Difference {
  double absolute = 0, relative = 0;
};
Difference difference(const Tensor& got, const Tensor& want);

}  // namespace foldgrad
