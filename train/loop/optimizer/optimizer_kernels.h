// Parameters of the kernels of optimizers and of the weight average: T is float or double.
#pragma once
#include <vector>

#include "engine/dtype.h"
#include "train/loop/optimizer/multi_tensor.h"
#include "train/loop/optimizer/optimizer_math.h"

namespace foldgrad {

// One parameter and its state.
template <class T>
struct UpdatedTensor {
  T* value;
  const T* grad;
  T* first;  // moments; null where the rule has none
  T* second;
  std::int64_t size;
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

// Rules, with the numbers of one step for a group of parameters: operator()(t, i, scale) updates element i, with a
// gradient of scale * t.grad[i].

template <class T>
struct AdamRule {
  T one_minus_beta1, one_minus_beta2, eps, rate, root_scale, decay;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, T scale) const {
    const T g = scale * t.grad[i];
    const T m = optimizer_math::adam_first(t.first[i], g, one_minus_beta1);
    const T v = optimizer_math::adam_second(t.second[i], g, one_minus_beta2);
    t.first[i] = m;
    t.second[i] = v;
    t.value[i] = optimizer_math::adam_value(t.value[i], m, v, rate, root_scale, eps, decay);
  }
};

enum class SgdForm { plain, momentum, nesterov };

template <class T, SgdForm form>
struct SgdRule {
  T momentum, rate, decay;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, T scale) const {
    T direction = optimizer_math::sgd_gradient(scale * t.grad[i], t.value[i], decay);
    if constexpr (form != SgdForm::plain) {
      const T d = direction;
      const T m = optimizer_math::sgd_momentum(t.first[i], d, momentum);
      t.first[i] = m;
      direction = form == SgdForm::nesterov ? optimizer_math::sgd_nesterov(m, d, momentum) : m;
    }
    t.value[i] = optimizer_math::sgd_value(t.value[i], direction, rate);
  }
};

// `value` is the average and `grad` the parameter.
template <class T>
struct AverageRule {
  T rate;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, T) const {
    t.value[i] = optimizer_math::average(t.value[i], t.grad[i], rate);
  }
};

// Leaves the value as it is, so that nothing but its rounding is written.
template <class T>
struct RoundRule {
  FOLDGRAD_HD void operator()(const UpdatedTensor<T>&, std::int64_t, T) const {}
};

// `scale` is one number on the tensors' device, or null for 1: so a factor that the device computed stays there.
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
