// One value everywhere. On the device it is a kernel: values filled on the host would have to be copied there.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct Fill {
  static constexpr const char* kName = "fill";
  T* out;
  T value;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { out[i] = value; }
};

}  // namespace foldgrad
