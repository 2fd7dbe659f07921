// The exponential moving average of a model's weights (Polyak, Juditsky 1992, with the weights of torch-ema and timm).
//
//   [EMA-1]  a <- a + (1 - decay) (p - a)          starting from a = p
//   [AVG-3]  a <- a + (1 - decay) (s - a)          starting from a = s, of the normalizers' running statistics s
//
// Averaged weights see other activations than those in training. timm averages all buffers with the weights; here
// windows and counters, which belong to training, stay those of the last step.
//
// In the parameters' dtype: in f32 an average that differs from p by less than 6e-8 / (1 - decay) of itself stands
// still, which for a decay of 0.9999 is half a per mille of the weight.
#pragma once
#include "engine/named_tensors.h"
#include "engine/tape.h"

namespace foldgrad {

class WeightAverage {
 public:
  // Throws std::invalid_argument unless 0 <= decay < 1, and for parameters that are not all f32 or all f64 and on one
  // device, or that share a name. They must outlive the average. `statistics`: live buffers that are averaged with
  // them, of the parameters' dtype and device.
  WeightAverage(const std::vector<Parameter*>& parameters, double decay, const NamedTensors& statistics = {});

  void update();  // once after every step
  // Puts the averages where the values are and the other way round: before an evaluation, and again after it.
  void swap();

  // Returns, for checkpoints, a tensor under the name of each parameter and statistic, in the average's storage.
  NamedTensors state() const;
  // Throws std::invalid_argument, before anything has changed, when a tensor is missing, unknown, or does not fit.
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

// The averages in the values' place as long as this lives. Null: nothing happens.
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
