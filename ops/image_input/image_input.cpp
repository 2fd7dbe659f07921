#include "ops/image_input/image_input.h"

#include <cmath>

#include "engine/cpu/elementwise.h"
#include "engine/node_grads.h"
#include "ops/image_input/image_input_kernels.h"

namespace foldgrad {

template <class T>
void image_input_cpu(const ImageInput<T>& p) {
  elementwise_cpu(p);
}

namespace {

// This node is never on the tape, since u8 tensors need no gradient.
struct ImageInputNode {
  const char* name() const { return "image_input"; }
  void backward(NodeGrads&) {}
  void describe(Description&) const {}
};

void check(const Tensor& x, const ImageStatistics& statistics, DType dtype) {
  FOLDGRAD_CHECK(x.defined() && x.dtype() == DType::u8 && x.shape().rank() == 4 && x.shape()[3] == 3,
                 "image_input: x must be u8 [B, H, W, 3], got {}", describe(x));
  FOLDGRAD_CHECK(is_floating(dtype), "image_input: the result must be f32, f64 or bf16, got {}", name(dtype));
  for (int c = 0; c < 3; ++c)
    FOLDGRAD_CHECK(
        std::isfinite(statistics.mean[c]) && std::isfinite(statistics.std[c]) && statistics.std[c] > 0,
        "image_input: the mean must be finite, and the standard deviation finite and positive, got {} and {} for "
        "channel {}",
        statistics.mean[c], statistics.std[c], c);
}

}  // namespace

Var image_input(const Var& xv, const ImageStatistics& statistics, DType dtype) {
  const Tensor& x = xv.value();
  check(x, statistics, dtype);
  const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  dispatch_floating("image_input", dtype, [&]<class T>(Type<T>) {
    ImageInput<T> p{.y = y.data<T>(), .x = x.data<std::uint8_t>(), .n = x.size() / 3, .mean = {}, .std = {}};
    for (int c = 0; c < 3; ++c) {
      p.mean[c] = compute_t<T>(statistics.mean[c]);
      p.std[c] = compute_t<T>(statistics.std[c]);
    }
    FOLDGRAD_RUN(x.device(), image_input, p);
  });
  return xv.tape().record(y, {xv}, ImageInputNode{});
}

}  // namespace foldgrad
