#include "engine/accumulate.h"

#include "engine/accumulate_kernels.h"
#include "engine/dispatch.h"

namespace foldgrad {

void accumulate(const Tensor& target, const Tensor& source) {
  check_operand("accumulate", "source", source, target.shape(), target, "target");
  dispatch_floating("accumulate", target.dtype(), [&]<class T>(Type<T>) {
    const Accumulate<T> p{target.data<T>(), source.data<T>(), target.size()};
    FOLDGRAD_RUN(target.device(), accumulate, p);
  });
}

void accumulate_bf16(const Tensor& target, GradMode mode, const Tensor& source) {
  check_operand("accumulate", "source", source, target.shape(), DType::bf16, target, "target");
  const AccumulateBf16 p{{target.data<float>(), mode}, source.data<bf16>(), target.size()};
  FOLDGRAD_RUN(target.device(), accumulate_bf16, p);
}

}  // namespace foldgrad
