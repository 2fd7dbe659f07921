// How far a folded model is from the one it was folded from, site by site.
#pragma once
#include "models/fold/transformer.h"

namespace foldgrad {

struct FoldDifferences {
  Difference logits;
  // By site: of the results of all linear layers that its map was folded into, their biases and activations included.
  // Sites that went into another site, or nowhere, have none.
  std::map<std::string, Difference> sites;
};

// Both computed in `dtype`, at inference, on the batch.
FoldDifferences fold_differences(Transformer& original, const FoldedTransformer& folded, const TranslationBatch& batch,
                                 DType dtype);

}  // namespace foldgrad
