// The function of a normalizer at inference: all that folding and export need.
#pragma once
#include <variant>

#include "engine/graph/channel_map.h"
#include "ops/rms_norm/rms_norm.h"

namespace foldgrad {

// The function of a row x of C channels, in f64 on the host:
//
//   y = A u + B     u = x, or x - mean of the row if the map is centred, or one of the alternatives below
//
// Without an alternative it is offline: A and B, with the mean or without it, fold into linear layers.
struct InferenceForm {
  // (x - [mean]) / sqrt(mean of (x - [mean])^2 + eps) of each group of channels, or of the row as one; with
  // Normalizer::mixes_tokens() the means are over all tokens of a sample.
  struct Groups {
    std::int64_t count;
    bool centered;
    double eps;
  };
  struct UnitLength {  // x / max(|x|, eps)
    double eps;
  };
  struct Elementwise {  // tanh(alpha x) or erf(alpha x + shift)
    enum class Function { tanh, erf } function;
    double alpha, shift;
  };

  AffineMap map;
  std::variant<std::monostate, RmsNormOptions, Groups, UnitLength, Elementwise> instead = {};

  bool offline() const { return std::holds_alternative<std::monostate>(instead); }
};

}  // namespace foldgrad
