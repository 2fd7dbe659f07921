#include "ops/power_norm/group_rms.h"

#include "engine/dispatch.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"

namespace foldgrad {

Var group_rms(const Var& x, std::int64_t groups, double eps) {
  check_floating("group_rms", "x", x.value(), 1);
  const std::int64_t C = x.shape()[-1];
  FOLDGRAD_CHECK(groups >= 1 && C % groups == 0, "group_rms: groups must divide {} channels, got {}", C, groups);
  const Var one = x.tape().constant(Tensor::full({C / groups}, 1, x.dtype(), x.device()));
  const Var grouped = reshape(x, {x.value().size() / (C / groups), C / groups});
  return reshape(rms_norm(grouped, one, eps), x.shape().sizes());  // [PN-4]
}

}  // namespace foldgrad
