// The settings of a trainer. Configurations set them in [train], and sync_norms in [norm].
#pragma once
#include <array>
#include <cstdint>

#include "engine/dtype.h"

namespace foldgrad {

// How to react to an update whose loss or gradient is not finite. Unless training is aborted, the total number of
// updates stays the same; further batches replace the lost ones. The frequency of calls of Trainer::report() affects
// only the state to which a rollback returns.
enum class OnNan {
  abort,    // throws Diverged
  skip,     // leaves out the batches of that update, as if they were not in the data
  rollback  // returns to the state of the last report, and continues with the batches after that update
};
constexpr auto names_of(OnNan) { return std::array{"abort", "skip", "rollback"}; }

// Parameters that adaptive clipping skips: Model::output_parameters(), or none.
enum class Unclipped { output, none };
constexpr auto names_of(Unclipped) { return std::array{"output", "none"}; }

struct TrainerOptions {
  double clip = 0;  // largest allowed norm of the gradient; 0 turns clipping off
  double agc = 0;   // adaptive clipping (gradient_clipping.h), before `clip`; 0 turns it off
  Unclipped agc_exclude = Unclipped::output;
  std::int64_t accumulate = 1;  // number of batches per update
  std::int64_t seed = 1;        // seed of dropout
  DType dtype = DType::f32;     // type of the activations
  OnNan on_nan = OnNan::abort;
  double average_decay = 0;         // decay of the moving average of weights; 0 turns the average off
  bool average_statistics = false;  // also averages the normalizers' running statistics [AVG-3]
  bool sync_norms = true;           // computes per-channel statistics over all ranks
  double label_smoothing = 0.1;     // smoothing of the targets in the loss
  bool operator==(const TrainerOptions&) const = default;
};

}  // namespace foldgrad
