#include "ops/top_k/top_k.h"

#include "engine/dispatch.h"
#include "ops/top_k/top_k_kernels.h"

namespace foldgrad {

TopK top_k(const Tensor& x, std::int64_t k, const std::vector<std::int64_t>& wanted) {
  FOLDGRAD_CHECK(x.defined() && (x.dtype() == DType::f32 || x.dtype() == DType::f64) && x.shape().rank() == 2,
                 "top_k: x must be f32 or f64 [rows, columns], got {}", describe(x));
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  FOLDGRAD_CHECK(0 < k && k <= columns, "top_k: k must be in [1, {}], got {}", columns, k);
  for (const std::int64_t c : wanted)
    FOLDGRAD_CHECK(0 <= c && c < columns, "top_k: wanted columns must be in [0, {}), got {}", columns, c);
  const auto n = std::int64_t(wanted.size());
  const TopK top{Tensor::empty({rows, k}, x.dtype(), x.device()), Tensor::empty({rows, k}, DType::i64, x.device()),
                 Tensor::empty({rows}, DType::f64, x.device()), Tensor::empty({rows, n}, x.dtype(), x.device())};
  const Tensor columns_wanted = Tensor::of({n}, wanted, x.device());
  const auto run = [&]<class T>(Type<T>) {
    const TopKParams<T> p{.values = top.values.data<T>(),
                          .indices = top.indices.data<std::int64_t>(),
                          .log_sum_exp = top.log_sum_exp.data<double>(),
                          .wanted = top.wanted.data<T>(),
                          .x = x.data<T>(),
                          .columns_wanted = columns_wanted.data<std::int64_t>(),
                          .rows = rows,
                          .columns = columns,
                          .k = k,
                          .wanted_columns = n};
    FOLDGRAD_RUN(x.device(), top_k, p);
  };
  x.dtype() == DType::f32 ? run(Type<float>{}) : run(Type<double>{});
  return top;
}

}  // namespace foldgrad
