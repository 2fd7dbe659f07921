// One value everywhere. On the device it is a kernel: values filled on the host would have to be copied there.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct Fill {
  T* out;
  T value;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { out[i] = value; }
};

FOLDGRAD_DECLARE(fill, Fill);

// For every type that a tensor can have.
#define FOLDGRAD_INSTANTIATE_FILL(FUNCTION)          \
  FOLDGRAD_INSTANTIATE(FUNCTION, Fill);              \
  template void FUNCTION(const Fill<std::int32_t>&); \
  template void FUNCTION(const Fill<std::int64_t>&); \
  template void FUNCTION(const Fill<std::uint8_t>&)

}  // namespace foldgrad
