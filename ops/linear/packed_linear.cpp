#include "ops/linear/packed_linear.h"

#include <string_view>

#include "engine/gemm/gemm.h"

namespace foldgrad {
namespace {

template <class Y, class V>
void finish(std::int64_t size, const V* product, Y* y, const PackedLinearOptions& options) {
  if (options.activation) {
    with_activation(*options.activation, [&]<class F>(F) {
      for (std::int64_t i = 0; i < size; ++i) y[i] = Y(F::value(product[i]));
    });
  } else if (const V add = V(options.add); add != 0) {
    for (std::int64_t i = 0; i < size; ++i) y[i] = Y(add * V(y[i]) + product[i]);
  } else {
    for (std::int64_t i = 0; i < size; ++i) y[i] = Y(product[i]);
  }
}

// Makes a layer that uses gemm(). x has elements of type T, y of type Y.
template <class T, class Y>
PackedLinear plain(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
  using V = compute_t<T>;
  const Tensor w = weight.to(dtype_of<T>).to(dtype_of<V>).clone();
  const Tensor b = bias.defined() ? bias.to(dtype_of<V>).clone() : Tensor();
  return [w, b, options](std::int64_t rows, const void* x, void* y) {
    const std::int64_t n = w.shape()[0], k = w.shape()[1];
    if (rows == 0) return;
    const Tensor product = Tensor::empty({rows, n}, dtype_of<V>);
    Tensor widened;
    if constexpr (!std::is_same_v<T, V>) {
      widened = Tensor::empty({rows, k}, dtype_of<V>);
      V* to = widened.data<V>();
      const T* from = static_cast<const T*>(x);
      for (std::int64_t i = 0; i < rows * k; ++i) to[i] = V(from[i]);
      x = to;
    }
    gemm(Device::cpu, dtype_of<V>, {.transpose_b = true, .m = rows, .n = n, .k = k}, product.raw(), x, w.raw(),
         b.raw());
    finish(rows * n, product.data<V>(), static_cast<Y*>(y), options);
  };
}

}  // namespace

PackedLinear plain_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
  if (options.in == DType::f64) return plain<double, double>(weight, bias, options);
  if (options.in == DType::f32) return plain<float, float>(weight, bias, options);
  if (options.out == DType::f32) return plain<bf16, float>(weight, bias, options);
  return plain<bf16, bf16>(weight, bias, options);
}

PackedLinear packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
#ifdef FOLDGRAD_HAVE_ONEDNN
  if (std::string_view(gemm_backend(Device::cpu, options.in)).starts_with("oneDNN"))
    if (PackedLinear layer = onednn_packed_linear(weight, bias, options)) return layer;
#endif
  return plain_packed_linear(weight, bias, options);
}

}  // namespace foldgrad
