// The sum of a vector, in a fixed order: the last step towards the gradient of a scalar, whose terms are summed per
// row or per column before.
#pragma once
#include "engine/grad_out.h"

namespace foldgrad {

template <class T>
struct Total {
  GradOut<T> out;              // [1]; not null
  const compute_t<T>* values;  // [n]
  std::int64_t n;
};

template <class T>
void total_cpu(const Total<T>& p);
template <class T>
void total_cuda(const Total<T>& p);

}  // namespace foldgrad
