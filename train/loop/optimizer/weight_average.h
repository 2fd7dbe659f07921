// The exponential moving average of a model's weights (Polyak, Juditsky 1992, with the update of torch-ema and timm).
//
//   [EMA-1]  a <- a + (1 - decay) (p - a)          starting from a = p
//   [AVG-3]  a <- a + (1 - decay) (s - a)          starting from a = s, of the normalizers' running statistics s
//
// Averaged weights produce different activations than the weights in training. timm averages all buffers with the
// weights; here windows and counters, which only training uses, keep the values of the last step.
//
// The average has the parameters' dtype. In f32, an average stops moving when its relative difference from p falls
// below 6e-8 / (1 - decay), which is 0.06 % for a decay of 0.9999.
#pragma once
#include "engine/named_tensors.h"
#include "engine/tape.h"

namespace foldgrad {

class WeightAverage {
 public:
  // Throws std::invalid_argument unless 0 <= decay < 1 and the parameters are all f32 or all f64, on one device, with
  // different names. The parameters must outlive the average. `statistics` are live buffers, in the parameters' dtype
  // and on their device, that are averaged too.
  WeightAverage(const std::vector<Parameter*>& parameters, double decay, const NamedTensors& statistics = {});

  void update();  // must be called once after every step
  // Exchanges averages and values. Call swap() before and after an evaluation.
  void swap();

  // Returns one tensor per parameter and statistic, by name, for checkpoints. The tensors share the average's storage.
  NamedTensors state() const;
  // Throws std::invalid_argument before changing anything if a tensor is missing, unknown or does not fit.
  void load_state(const NamedTensors& state);

 private:
  struct Averaged {
    std::string name;
    Tensor value, average;  // the value's storage is the parameter's
  };

  void add(const std::string& name, const Tensor& value);

  const double decay_;
  std::vector<Averaged> averaged_;
};

// Swaps the averages in for the lifetime of the object. Does nothing if `average` is null.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverage* average) : average_(average) {
    if (average_) average_->swap();
  }
  ~AveragedWeights() {
    if (average_) average_->swap();
  }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage* average_;
};

}  // namespace foldgrad
