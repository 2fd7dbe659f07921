// The function that a normalizer computes at inference, for folding and export.
#pragma once
#include <variant>

#include "engine/graph/channel_map.h"
#include "ops/rms_norm/rms_norm.h"

namespace foldgrad {

// A map of a row x of C channels. All numbers are f64, on the host.
//
//   y = A u + B     u is x, x - mean(x) if the map is centred, or one of the alternatives below
//
// Without such an alternative, the normalizer is offline: A, B and the centring fold into linear layers.
struct InferenceForm {
  // u = (x - [mean]) / sqrt(mean of (x - [mean])^2 + eps), per group of channels; one group is the whole row. With
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
