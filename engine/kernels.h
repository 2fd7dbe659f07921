// What headers of kernels share. Included by kernels: C++17, no libraries.
#pragma once
#include "engine/grad_out.h"

// Declares a kernel for both devices, NAME_cpu and NAME_cuda, as FOLDGRAD_RUN (engine/dispatch.h) calls it and
// FOLDGRAD_INSTANTIATE makes it: void NAME_cpu(const PARAMS<T>&).
#define FOLDGRAD_DECLARE(NAME, PARAMS) \
  template <class T>                   \
  void NAME##_cpu(const PARAMS<T>&);   \
  template <class T>                   \
  void NAME##_cuda(const PARAMS<T>&)
