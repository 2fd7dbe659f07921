// The difference between a folded model and its original, site by site.
#pragma once
#include "models/fold/model.h"

namespace foldgrad {

// The largest absolute difference, and its ratio to the largest absolute value in either tensor. NaN if either has NaN.
struct Difference {
  double absolute = 0, relative = 0;
};
Difference difference(const Tensor& got, const Tensor& want);

struct FoldDifferences {
  Difference logits;
  // For each site, the largest difference in the results (after bias and activation) of the linear layers into which
  // the site's map was folded. A site has no entry if its map was not folded, or was folded into another site or into a
  // layer before the site [FOLD-3].
  std::map<std::string, Difference> sites;
};

// Runs both models on the inputs, at inference in `dtype`.
FoldDifferences fold_differences(Model& original, const FoldedModel& folded, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
