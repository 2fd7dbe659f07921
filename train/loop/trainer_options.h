// Settings of a trainer, which the section [train] of a configuration begins with.
#pragma once
#include <array>
#include <cstdint>

#include "engine/dtype.h"

namespace foldgrad {

// The way in which training goes on after an update whose loss or gradient is not finite. Unless it aborts, the same
// number of updates is made again with further batches, and nothing depends on how often Trainer::report() is called
// but where a rollback leads.
enum class OnNan {
  abort,    // throws Diverged
  skip,     // leaves out the batches of that update, as if they were not in the data
  rollback  // goes back to the state of the last report, and on with the batches after that update
};
constexpr auto names_of(OnNan) { return std::array{"abort", "skip", "rollback"}; }

// Parameters that adaptive clipping leaves alone: Model::output_parameters(), or none.
enum class Unclipped { output, none };
constexpr auto names_of(Unclipped) { return std::array{"output", "none"}; }

struct TrainerOptions {
  double clip = 0;  // largest norm of the gradient; 0: it is not clipped
  double agc = 0;   // adaptive clipping (gradient_clipping.h), before that; 0: none
  Unclipped agc_exclude = Unclipped::output;
  std::int64_t accumulate = 1;  // batches per update
  std::int64_t seed = 1;        // of dropout
  DType dtype = DType::f32;     // of activations
  OnNan on_nan = OnNan::abort;
  double average_decay = 0;         // of the moving average of weights; 0: there is none
  bool average_statistics = false;  // of the normalizers' running statistics too [AVG-3]
  bool sync_norms = true;           // normalizers' statistics per channel are those of all ranks
  double label_smoothing = 0.1;     // of the loss
  bool operator==(const TrainerOptions&) const = default;
};

}  // namespace foldgrad
