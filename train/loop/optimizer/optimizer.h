// Optimizers. g is a parameter's gradient times the step's gradient scale, t counts the steps from 1, lr is the step's
// learning rate times the group's factor, and wd the group's weight decay.
//
//   Adam and AdamW (Kingma, Ba 2015; Loshchilov, Hutter 2019):
//   [ADAM-1]  m <- beta1 m + (1 - beta1) g
//   [ADAM-2]  v <- beta2 v + (1 - beta2) g^2
//   [ADAM-3]  p <- p - wd lr p - (lr sqrt(1 - beta2^t) / (1 - beta1^t)) m / (sqrt(v) + eps)
//   [ADAM-4]  p <- p - wd lr p - (lr / (1 - beta1^t)) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   Adam is fairseq's, with [ADAM-3]; AdamW is PyTorch's, with [ADAM-4]. They differ in where eps is added: fairseq's
//   form multiplies the effect of eps by 1 / sqrt(1 - beta2^t), which is largest in the first steps. Weight decay is
//   decoupled in both.
//
//   SGD as in PyTorch, without dampening (Sutskever et al. 2013 for Nesterov's form):
//   [SGD-1]   d <- g + wd p
//   [SGD-2]   m <- momentum m + d                      with momentum = 0 there is no m, and d is the direction
//   [SGD-3]   direction = d + momentum m               with nesterov; otherwise m
//   [SGD-4]   p <- p - lr direction
//
// Parameters are f32 or f64, never bf16: training in bf16 uses rounded copies of the f32 parameters (round_values()). A
// step makes one pass over all parameters and does not wait for the GPU.
#pragma once
#include <variant>

#include "engine/named_tensors.h"
#include "engine/tape.h"

namespace foldgrad {

struct Adam {
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-8;
};
struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};
struct Sgd {
  double momentum = 0;
  bool nesterov = false;
};

struct ParameterGroup {
  std::vector<Parameter*> parameters;  // must outlive the optimizer
  double weight_decay = 0;
  double rate = 1;  // multiplies the learning rate
};

class Optimizer {
 public:
  using Rule = std::variant<Adam, AdamW, Sgd>;

  // Throws std::invalid_argument unless all settings are in range and there are parameters, all f32 or all f64, on one
  // device, listed only once, with different names.
  Optimizer(const Rule& rule, std::vector<ParameterGroup> groups);

  // Updates every parameter, and its bf16 copy if it has one (round_values()), with its gradient times
  // `gradient_scale`, f64 [] on the parameters' device, from clip_by_norm(). An undefined scale means 1. Throws
  // std::invalid_argument before changing anything if a parameter has no gradient or a gradient of another shape, or if
  // lr is negative or not finite.
  void step(double lr, const Tensor& gradient_scale = {});
  std::int64_t steps() const { return steps_; }
  std::vector<Parameter*> parameters() const;  // returns the parameters of all groups
  // Drops every gradient. Call it before the next backward pass; otherwise gradients accumulate.
  void zero_grad();

  // Returns, for checkpoints, `step`, i64 [] on the host, and `exp_avg.NAME` and `exp_avg_sq.NAME` (Adam's m and v), or
  // `momentum.NAME`, for every parameter. All but `step` share the optimizer's storage.
  NamedTensors state() const;
  // Copies the values from any device. The next step is then bit-identical to one taken when state() was called. Throws
  // std::invalid_argument before changing anything if a tensor is missing, unknown or does not fit.
  void load_state(const NamedTensors& state);

 private:
  struct Slot {
    Parameter* parameter;
    std::size_t group;
    Tensor first, second;
  };
  void add(Parameter* parameter);
  void check_update(const Tensor& gradient_scale) const;
  template <class T>
  void update(std::size_t group, double lr, const double* scale) const;
  const Tensor& like() const { return slots_[0].parameter->value; }

  Rule rule_;
  const char* name_;  // used in messages
  std::vector<Slot> slots_;
  std::vector<ParameterGroup> groups_;
  std::int64_t steps_ = 0;
};

// Rounds f32 parameters to bf16 (Parameter::rounded), for training in bf16. After that, step() writes the rounded
// copies in the pass that writes the values, so that no step has to cast them. Call it again if anything else has
// changed the values. Throws std::invalid_argument unless all parameters are f32 on one device.
void round_values(const std::vector<Parameter*>& parameters);

}  // namespace foldgrad
