#include "engine/accumulate.h"

#include "engine/accumulate_kernels.h"
#include "engine/dispatch.h"

namespace foldgrad {

void accumulate(const Tensor& target, const Tensor& source, GradMode mode) {
  const bool widens = target.dtype() == DType::f32 && source.dtype() == DType::bf16;
  check_operand("accumulate", "source", source, target.shape(), widens ? DType::bf16 : target.dtype(), target,
                "target");
  const auto run = [&](const auto& p) { FOLDGRAD_RUN(target.device(), elementwise, p); };
  if (widens) return run(AccumulateBf16{{target.data<float>(), mode}, source.data<bf16>(), target.size()});
  dispatch_floating("accumulate", target.dtype(), [&]<class T>(Type<T>) {
    run(Accumulate<T>{{target.data<T>(), mode}, source.data<T>(), target.size()});
  });
}

}  // namespace foldgrad
