// Fast CUDA kernels that replace plain ones. FOLDGRAD_RUN (dispatch.h) tries the fast kernel first, and runs the plain
// one if the fast one returns false. Example: layer_norm_kernels.h declares FOLDGRAD_FASTER(row_in_registers,
// LayerNormForward), and a file in fast/ defines bool row_in_registers(const P&), which returns false for long rows.
// FOLDGRAD_FAST=OFF builds without fast kernels. Kernels include this file, so it must be C++17 without libraries.
#pragma once
#include <atomic>
#include <cstdint>

namespace foldgrad {

// A fast kernel and the number of times it has run. All fast kernels form a linked list, for tests.
class FastKernel {
 public:
  explicit FastKernel(const char* name_) : name(name_), next(first) { first = this; }

  template <class P>
  bool run(bool (*kernel)(const P&), const P& p) {
    return !off && kernel(p) && ++runs;
  }

  const char* const name;
  std::atomic<std::int64_t> runs{0};
  FastKernel* const next;

  inline static FastKernel* first = nullptr;
  inline static bool off = false;  // If true, only plain kernels run. Set it only while no kernel runs.
};

template <class... P>
bool run_faster(const P&...) {
  return false;
}

}  // namespace foldgrad

#ifdef FOLDGRAD_FAST
#define FOLDGRAD_FASTER(KERNEL, PARAMS)                  \
  template <class P>                                     \
  bool KERNEL(const P&);                                 \
  inline FastKernel fast_##PARAMS(#KERNEL ", " #PARAMS); \
  template <class T>                                     \
  bool run_faster(const PARAMS<T>& p) {                  \
    return fast_##PARAMS.run(&KERNEL<PARAMS<T>>, p);     \
  }                                                      \
  static_assert(true)
#else
#define FOLDGRAD_FASTER(KERNEL, PARAMS) static_assert(true)
#endif

// Instantiates a fast kernel. Use it in the file that defines the kernel.
#define FOLDGRAD_INSTANTIATE_FASTER(KERNEL, PARAMS) \
  template bool KERNEL(const PARAMS<float>&);       \
  template bool KERNEL(const PARAMS<double>&);      \
  template bool KERNEL(const PARAMS<bf16>&)
