// The function of a normalizer at inference: all that folding and export need.
#pragma once
#include <variant>

#include "engine/graph/channel_map.h"
#include "ops/rms_norm/rms_norm.h"

namespace foldgrad {

// The function of a row x of C channels, in f64 on the host:
//
//   y = A u + B     u = (x - [mean]) [rstd]     mean: of the row; rstd: 1 / sqrt(mean of (x - [mean])^2 + eps)
//
// Without rstd it is offline: A and B, with the mean or without it, fold into linear layers.
struct InferenceForm {
  // Alternatives to u, none of them affine:
  struct Groups {  // the u above, of each group of channels; of Normalizer::mixes_tokens(), over all tokens of a sample
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

  AffineMap map;  // A and B; centred: the mean is subtracted
  bool scaled = false;
  double eps = 0;
  std::variant<std::monostate, RmsNormOptions, Groups, UnitLength, Elementwise> instead = {};

  bool of_row() const { return std::holds_alternative<std::monostate>(instead); }  // u is the one above
  bool offline() const { return of_row() && !scaled; }
};

}  // namespace foldgrad
