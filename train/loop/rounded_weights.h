// The weights in bf16, for the tapes of training (Tape::lend_rounded): the optimizer writes them in the pass
// in which it writes the weights, so that nothing has to be cast. Whoever else changes weights calls refresh().
#pragma once
#include "engine/tape.h"

namespace foldgrad {

class RoundedWeights {
 public:
  // Of parameters of f32, which must outlive this. Throws std::invalid_argument for others.
  explicit RoundedWeights(const std::vector<Parameter*>& parameters);

  // From the weights as they are.
  void refresh() const;
  const RoundedValues& values() const { return values_; }

 private:
  std::vector<Parameter*> parameters_;
  RoundedValues values_;
};

}  // namespace foldgrad
