// Common includes of kernel headers. Kernels include this file: C++17, no libraries.
#pragma once
#include "engine/fast.h"
#include "engine/grad_out.h"

namespace foldgrad {

// The number of a step of a row operation, for overloads of reduce() and finish() (engine/cpu/row_op.h).
template <int k>
struct Step {};

// Call f(i) for each element i < f.n; defined in engine/cpu/elementwise.h and engine/cuda/elementwise.h.
template <class F>
void elementwise_cpu(const F& f);
template <class F>
void elementwise_cuda(const F& f);

}  // namespace foldgrad

// Names the operands of a parameter struct; CUDA loops then load several neighbours at once (engine/cuda/operands.h):
//   FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma));
// says that y[i] is written, x[i] is read, and gamma[c] is read once per column. CPU loops ignore it.
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
