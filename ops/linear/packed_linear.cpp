#include "ops/linear/packed_linear.h"

#include <string_view>

#include "engine/cpu/elementwise.h"
#include "engine/gemm/gemm.h"

namespace foldgrad {
namespace {

// T: of x, V: of the product, Y: of y.
template <class T, class Y>
class PlainLinear final : public PackedLinear::Backend {
  using V = compute_t<T>;

 public:
  PlainLinear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options)
      : weight_(weight.to(dtype_of<T>).to(dtype_of<V>).clone()), options_(options) {
    if (bias.defined()) bias_ = bias.to(dtype_of<V>).clone();
  }

  void run(std::int64_t rows, const void* x, void* y) const override {
    const std::int64_t n = weight_.shape()[0], k = weight_.shape()[1];
    const Tensor product = Tensor::empty({rows, n}, dtype_of<V>);
    Tensor widened;
    if constexpr (!std::is_same_v<T, V>) {
      widened = Tensor::empty({rows, k}, dtype_of<V>);
      V* to = widened.data<V>();
      const T* from = static_cast<const T*>(x);
      for (std::int64_t i = 0; i < rows * k; ++i) to[i] = V(from[i]);
      x = to;
    }
    gemm(Device::cpu, dtype_of<V>, {.transpose_b = true, .m = rows, .n = n, .k = k}, product.raw(), x, weight_.raw(),
         bias_.raw());
    finish(rows * n, product.data<V>(), static_cast<Y*>(y));
  }

 private:
  void finish(std::int64_t size, const V* product, Y* y) const {
    if (options_.activation) {
      with_activation(*options_.activation, [&]<class F>(F) {
        for (std::int64_t i = 0; i < size; ++i) y[i] = Y(F::value(product[i]));
      });
    } else if (const V add = V(options_.add); add != 0) {
      for (std::int64_t i = 0; i < size; ++i) y[i] = Y(add * V(y[i]) + product[i]);
    } else {
      for (std::int64_t i = 0; i < size; ++i) y[i] = Y(product[i]);
    }
  }

  Tensor weight_, bias_;
  PackedLinearOptions options_;
};

}  // namespace

std::unique_ptr<PackedLinear::Backend> plain_packed_linear(const Tensor& weight, const Tensor& bias,
                                                           const PackedLinearOptions& options) {
  if (options.in == DType::f64) return std::make_unique<PlainLinear<double, double>>(weight, bias, options);
  if (options.in == DType::f32) return std::make_unique<PlainLinear<float, float>>(weight, bias, options);
  if (options.out == DType::f32) return std::make_unique<PlainLinear<bf16, float>>(weight, bias, options);
  return std::make_unique<PlainLinear<bf16, bf16>>(weight, bias, options);
}

PackedLinear::PackedLinear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
#ifdef FOLDGRAD_HAVE_ONEDNN
  const std::string_view library = gemm_backend(Device::cpu, options.in);
  if (library.substr(0, 6) == "oneDNN") backend_ = onednn_packed_linear(weight, bias, options);
#endif
  if (!backend_) backend_ = plain_packed_linear(weight, bias, options);
}

}  // namespace foldgrad
