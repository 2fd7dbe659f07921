#include "train/tasks/classification_checks.h"

#include <algorithm>

#include "models/fold/difference.h"
#include "train/checks/model_checks.h"

namespace foldgrad {

CheckResult check_other_images(Model& model, const NamedTensors& inputs) {
  constexpr const char* kName = "other images of the batch change nothing";
  const Tensor& images = inputs.at("images");
  const std::int64_t some = std::min<std::int64_t>(images.shape()[0], 4);
  if (images.shape()[0] < 2) return check_skipped(kName, "there is one image alone");
  const Tensor together = inference_logits(model, inputs, DType::f64).slice(0, some), apart = together.clone();
  for (std::int64_t i = 0; i < some; ++i)
    apart.slice(i, i + 1).copy_from(inference_logits(model, {{"images", images.slice(i, i + 1)}}, DType::f64));
  return check_same_logits(kName, apart, together, kSameInF64);
}

}  // namespace foldgrad
