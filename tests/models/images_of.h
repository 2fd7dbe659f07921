// Images for a model that tells them apart.
#pragma once
#include "models/images/config.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

inline NamedTensors images_of(const ImageModelConfig& config, std::int64_t count = 3, DType dtype = DType::f64) {
  return {{"images", randn({count, config.image_size, config.image_size, 3}, 7).to(dtype)},
          {"target", random_ids({count}, config.classes, 8)}};
}

}  // namespace foldgrad::testing
