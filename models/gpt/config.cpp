#include "models/gpt/config.h"

#include "engine/check.h"

namespace foldgrad {

GptConfig::GptConfig() {
  width = 384, ffn_width = 1536, heads = 6;
  dropout = attention_dropout = 0.2, activation_dropout = 0;
  activation = "gelu";
}

void GptConfig::validate() const {
  require_positive("gpt", {{"vocabulary", vocabulary}, {"layers", layers}, {"context", context}});
  FOLDGRAD_CHECK(width >= 4 && width % 2 == 0, "gpt: width must be even and at least 4, got {}", width);
  BlockConfig::validate("gpt");
  require_choice("gpt", "positions", positions, kPositions);
}

}  // namespace foldgrad
