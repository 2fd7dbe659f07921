// Properties that hold for every model, checked on this one: what `foldgrad verify` runs.
#pragma once
#include <string>
#include <vector>

#include "models/fold.h"
#include "models/transformer.h"
#include "train/probe.h"

namespace foldgrad {

struct CheckResult {
  enum class Outcome { passed, failed, skipped };

  std::string name;  // "folded = unfolded, f64"
  Outcome outcome;
  std::string measured;  // "relative difference 3.1e-15, at most 1e-11"
};

// On random ids, in f64 on the CPU but where f32 is named:
//   the model's numbers are finite; folded logits are the logits, in f64 and f32; so are greedy translations;
//   padding columns and other sentences of a batch change no logits; gradients of the loss at inference, where
//   statistics are fixed, agree with central differences; Eq. 18 of Unified Normalization holds for every window.
// What does not apply to the model is skipped, with the reason.
std::vector<CheckResult> check_model(Transformer& model, const FoldOptions& options, const Probe& probe);

}  // namespace foldgrad
