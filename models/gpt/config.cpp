#include "models/gpt/config.h"

#include <cmath>

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
  if (!has_rotary_positions()) return;
  std::int64_t fitting = (width + 127) / 128;
  while (width % (2 * fitting) != 0) ++fitting;
  FOLDGRAD_CHECK(width / heads % 2 == 0,
                 "gpt: with positions = rotary, each head must have an even number of channels, as with heads = "
                 "{} for width = {}, got heads = {}",
                 fitting, width, heads);
  FOLDGRAD_CHECK(rotary_theta > 0 && std::isfinite(rotary_theta),
                 "gpt: rotary_theta must be a number above 0, such as 10000, got {}", rotary_theta);
}

}  // namespace foldgrad
