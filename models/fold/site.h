// What folding has to know of a normalizer.
#pragma once
#include "models/fold/fold.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// `norm` is applied to zeros of this dtype and device, its model's, to see which operations it consists of.
FoldSite fold_site(Normalizer& norm, DType dtype, Device device);

}  // namespace foldgrad
