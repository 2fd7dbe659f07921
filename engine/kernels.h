// Common includes of kernel headers. Included by kernels: C++17, no libraries.
#pragma once
#include "engine/fast.h"
#include "engine/grad_out.h"

namespace foldgrad {

// Number k of the sums that an operation along rows takes one after another (engine/cpu/row_op.h).
template <int k>
struct Step {};

// Loops over the elements, in engine/cpu/elementwise.h and engine/cuda/elementwise.h.
template <class F>
void elementwise_cpu(const F& f);
template <class F>
void elementwise_cuda(const F& f);

}  // namespace foldgrad

// Names the operands of a parameter struct, for packs (engine/cuda/operands.h):
//   FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma));
#define FOLDGRAD_OPERANDS(...)              \
  template <class Visit>                    \
  FOLDGRAD_HD void operands(Visit& visit) { \
    (__VA_ARGS__);                          \
  }                                         \
  static_assert(true)

// Declares a kernel for both devices, NAME_cpu and NAME_cuda, as FOLDGRAD_RUN (engine/dispatch.h) calls it and
// FOLDGRAD_INSTANTIATE makes it: void NAME_cpu(const PARAMS<T>&).
#define FOLDGRAD_DECLARE(NAME, PARAMS) \
  template <class T>                   \
  void NAME##_cpu(const PARAMS<T>&);   \
  template <class T>                   \
  void NAME##_cuda(const PARAMS<T>&)
