#include <algorithm>

#include "engine/fill_kernels.h"

namespace foldgrad {

template <class T>
void fill_cpu(const Fill<T>& p) {
  std::fill_n(p.out, p.n, p.value);
}
FOLDGRAD_INSTANTIATE_FILL(fill_cpu);

}  // namespace foldgrad
