// The difference between a folded model and its original, site by site.
#pragma once
#include "models/fold/model.h"

namespace foldgrad {

// The largest absolute difference, and its ratio to the largest absolute value of both. NaN if either side has one.
struct Difference {
  double absolute = 0, relative = 0;
};
Difference difference(const Tensor& got, const Tensor& want);

struct FoldDifferences {
  Difference logits;
  // By site: over the results of all linear layers that its map was folded into, with their biases and activations. A
  // site that was folded into another site, into a layer before it [FOLD-3], or nowhere, has no entry.
  std::map<std::string, Difference> sites;
};

// Runs both models on the inputs, at inference in `dtype`.
FoldDifferences fold_differences(Model& original, const FoldedModel& folded, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
