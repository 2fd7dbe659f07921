#include "engine/cuda/elementwise.h"
#include "ops/image_input/image_input_kernels.h"

namespace foldgrad {
namespace {

// Computes one element at a time, so that neighbouring threads access neighbouring packs.
template <class T>
struct Channels {
  static constexpr const char* kName = "image_input";
  ImageInput<T> p;
  std::int64_t n = 3 * p.n;
  int first = 0;  // channel of element 0

  __device__ void start(std::int64_t i, std::int64_t) { first = int(i % 3); }
  __device__ void operator()(std::int64_t k) const {
    const int c = (first + int(k)) % 3;
    // Chooses by comparisons, because indexing would move both arrays out of registers.
    const auto of = [c](const compute_t<T>(&values)[3]) { return c == 0 ? values[0] : c == 1 ? values[1] : values[2]; };
    p.y[k] = p.normalized(p.x[k], of(p.mean), of(p.std));
  }
  FOLDGRAD_OPERANDS(visit.result(p.y), visit.element(p.x));
};

}  // namespace

template <class T>
void image_input_cuda(const ImageInput<T>& p) {
  elementwise_cuda(Channels<T>{p});
}

FOLDGRAD_INSTANTIATE(image_input_cuda, ImageInput);

}  // namespace foldgrad
