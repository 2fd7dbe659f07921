#include "models/images/config.h"

#include <cmath>

#include "engine/check.h"

namespace foldgrad {

ImageModelConfig::ImageModelConfig() {
  dropout = attention_dropout = activation_dropout = 0;
  activation = "gelu";
}

void ImageModelConfig::validate(const char* family) const {
  require_positive(family, {{"image_size", image_size}, {"classes", classes}});
  FOLDGRAD_CHECK(class_names.empty() || std::int64_t(class_names.size()) == classes,
                 "{}: class_names must have {} names or none, got {}", family, classes, class_names.size());
  for (double mean : pixels.mean)
    FOLDGRAD_CHECK(std::isfinite(mean), "{}: image_mean must be finite, got {}", family, mean);
  for (double std : pixels.std)
    FOLDGRAD_CHECK(std::isfinite(std) && std > 0, "{}: image_std must be above 0 and finite, got {}", family, std);
  BlockConfig::validate(family);
  FOLDGRAD_CHECK(pre_norm || !fc_norm, "{}: fc_norm must be off; with post-norm there is no last normalizer", family);
}

void TokenModelConfig::validate(const char* family, const std::vector<std::string>& initializations) const {
  require_positive(family, {{"layers", layers}});
  require_choice(family, "pooling", pooling, kPoolings);
  require_choice(family, "initialization", initialization, initializations);
  require_choice(family, "tfixup_scope", tfixup_scope, kTfixupScopes);
  require_choice(family, "positions", positions, kPositions);
  ImageModelConfig::validate(family);
}

}  // namespace foldgrad
