#include "engine/cuda/elementwise.h"
#include "ops/image_input/image_input_kernels.h"

namespace foldgrad {

template <class T>
void image_input_cuda(const ImageInput<T>& p) {
  elementwise_cuda("image_input", p.pixels, p);
}

FOLDGRAD_INSTANTIATE(image_input_cuda, ImageInput);

}  // namespace foldgrad
