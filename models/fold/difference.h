// The difference between a folded model and its original, site by site.
#pragma once
#include "models/fold/model.h"

namespace foldgrad {

// The largest absolute difference, and its ratio to the largest absolute value on either side. NaN if either side has a
// NaN.
struct Difference {
  double absolute = 0, relative = 0;
};
Difference difference(const Tensor& got, const Tensor& want);

struct FoldDifferences {
  Difference logits;
  // The difference by site. It compares the results of all linear layers that the site's map was folded into, after
  // bias and activation. A site has no entry if it was folded into another site or into a layer before it [FOLD-3], or
  // not at all.
  std::map<std::string, Difference> sites;
};

// Runs both models on the inputs, at inference in `dtype`.
FoldDifferences fold_differences(Model& original, const FoldedModel& folded, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
