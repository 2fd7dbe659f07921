#include "engine/cpu/elementwise.h"
#include "ops/image_input/image_input_kernels.h"

namespace foldgrad {

template <class T>
void image_input_cpu(const ImageInput<T>& p) {
  elementwise_cpu(p);
}

FOLDGRAD_INSTANTIATE(image_input_cpu, ImageInput);

}  // namespace foldgrad
