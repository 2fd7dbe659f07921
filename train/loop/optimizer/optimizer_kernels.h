// What the kernels of optimizers and of the weight average take: T is float or double.
#pragma once
#include <vector>

#include "engine/dtype.h"
#include "train/loop/optimizer/multi_tensor.h"
#include "train/loop/optimizer/optimizer_math.h"

namespace foldgrad {

// What a group of parameters has for one step: rate, decay and root_scale. They lie in memory of the tensors' device,
// so that a captured kernel (engine/cuda/graph.h) reads those of the step at hand.
constexpr int kGroupNumbers = 3;

// One parameter and its state.
template <class T>
struct UpdatedTensor {
  T* value;
  const T* grad;
  T* first;  // moments; null where the rule has none
  T* second;
  std::int64_t size;
  const double* group;      // [kGroupNumbers]
  bf16* rounded = nullptr;  // where the new value goes, too

  FOLDGRAD_HD std::int64_t pieces() const { return element_pieces(size); }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.update(value);
    visit.element(grad);
    visit.update(first);
    visit.update(second);
    visit.result(rounded);
  }
};

// Read once for all elements: behind pointers they could alias what is written.
template <class T>
struct StepFactors {
  T gradient, rate, decay, root_scale;

  // `scale`: of the gradients; null for 1.
  FOLDGRAD_HD StepFactors(const UpdatedTensor<T>& t, const double* scale)
      : gradient(scale ? T(*scale) : T(1)), rate(T(t.group[0])), decay(T(t.group[1])), root_scale(T(t.group[2])) {}
};

// Rules: operator()(t, i, s) updates element i, with a gradient of s.gradient * t.grad[i].

template <class T>
struct AdamRule {
  T one_minus_beta1, one_minus_beta2, eps;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, const StepFactors<T>& s) const {
    const T g = s.gradient * t.grad[i];
    const T m = optimizer_math::adam_first(t.first[i], g, one_minus_beta1);
    const T v = optimizer_math::adam_second(t.second[i], g, one_minus_beta2);
    t.first[i] = m;
    t.second[i] = v;
    t.value[i] = optimizer_math::adam_value(t.value[i], m, v, s.rate, s.root_scale, eps, s.decay);
  }
};

enum class SgdForm { plain, momentum, nesterov };

template <class T, SgdForm form>
struct SgdRule {
  T momentum;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, const StepFactors<T>& s) const {
    T direction = optimizer_math::sgd_gradient(s.gradient * t.grad[i], t.value[i], s.decay);
    if constexpr (form != SgdForm::plain) {
      const T d = direction;
      const T m = optimizer_math::sgd_momentum(t.first[i], d, momentum);
      t.first[i] = m;
      direction = form == SgdForm::nesterov ? optimizer_math::sgd_nesterov(m, d, momentum) : m;
    }
    t.value[i] = optimizer_math::sgd_value(t.value[i], direction, s.rate);
  }
};

// `value` is the average and `grad` the parameter.
template <class T>
struct AverageRule {
  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, const StepFactors<T>& s) const {
    t.value[i] = optimizer_math::average(t.value[i], t.grad[i], s.rate);
  }
};

// Leaves the value as it is, so that nothing but its rounding is written.
template <class T>
struct RoundRule {
  FOLDGRAD_HD void operator()(const UpdatedTensor<T>&, std::int64_t, const StepFactors<T>&) const {}
};

// `scale` is one number on the tensors' device, or null for 1: so a factor that the device computed needs no way back.
template <class Rule, class T>
void update_cpu(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale);
template <class Rule, class T>
void update_cuda(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale);

}  // namespace foldgrad

#define FOLDGRAD_INSTANTIATE_UPDATE(function, T)                                                                     \
  template void function(const std::vector<UpdatedTensor<T>>&, const AdamRule<T>&, const double*);                   \
  template void function(const std::vector<UpdatedTensor<T>>&, const SgdRule<T, SgdForm::plain>&, const double*);    \
  template void function(const std::vector<UpdatedTensor<T>>&, const SgdRule<T, SgdForm::momentum>&, const double*); \
  template void function(const std::vector<UpdatedTensor<T>>&, const SgdRule<T, SgdForm::nesterov>&, const double*); \
  template void function(const std::vector<UpdatedTensor<T>>&, const AverageRule<T>&, const double*);                \
  template void function(const std::vector<UpdatedTensor<T>>&, const RoundRule<T>&, const double*);
