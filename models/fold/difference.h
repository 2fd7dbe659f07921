// The distance between a folded model and the one it was folded from, site by site.
#pragma once
#include "models/fold/model.h"

namespace foldgrad {

// Greatest difference, and the same over the greatest value of either. NaN on either side gives NaN.
struct Difference {
  double absolute = 0, relative = 0;
};
Difference difference(const Tensor& got, const Tensor& want);

struct FoldDifferences {
  Difference logits;
  // By site: of the results of all linear layers that its map was folded into, their biases and activations included.
  // Sites that went into another site, or nowhere, have none.
  std::map<std::string, Difference> sites;
};

// Runs both on the inputs, in `dtype` at inference.
FoldDifferences fold_differences(Model& original, const FoldedModel& folded, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
