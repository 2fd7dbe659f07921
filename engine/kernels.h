// The includes that kernel headers share. Kernels include this file, so it must be C++17 without libraries.
#pragma once
#include "engine/fast.h"
#include "engine/grad_out.h"

namespace foldgrad {

// The type for step k of a row operation. It selects an overload of reduce() and finish() (engine/cpu/row_op.h).
template <int k>
struct Step {};

// Both functions compute every element i < f.n. engine/cpu/elementwise.h and engine/cuda/elementwise.h define them.
template <class F>
void elementwise_cpu(const F& f);
template <class F>
void elementwise_cuda(const F& f);

}  // namespace foldgrad

// Lists a parameter struct's operands, so that CUDA loops load several neighbours at once (engine/cuda/operands.h):
//   FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma));
// says that y[i] is written, x[i] read, and gamma[c] read once per column. CPU loops only check if y overwrites x.
#define FOLDGRAD_OPERANDS(...)              \
  template <class Visit>                    \
  FOLDGRAD_HD void operands(Visit& visit) { \
    (__VA_ARGS__);                          \
  }                                         \
  static_assert(true)

// Declares NAME_cpu(const PARAMS<T>&) and NAME_cuda(const PARAMS<T>&), for FOLDGRAD_RUN and FOLDGRAD_INSTANTIATE.
#define FOLDGRAD_DECLARE(NAME, PARAMS) \
  template <class T>                   \
  void NAME##_cpu(const PARAMS<T>&);   \
  template <class T>                   \
  void NAME##_cuda(const PARAMS<T>&)
