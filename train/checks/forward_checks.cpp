#include "train/checks/forward_checks.h"

#include "models/fold/difference.h"
#include "train/checks/finite.h"

namespace foldgrad {

CheckResult check_finite(const Model& model) {
  const std::vector<std::string> bad = non_finite_tensors(model);
  return check_that("all numbers are finite", bad.empty(),
                    bad.empty() ? fmt::format("{} parameters, {} buffers of normalizers", model.parameter_count(),
                                              model.state().size())
                                : bad[0]);
}

CheckResult check_same_logits(std::string name, const Tensor& got, const Tensor& want, double bound) {
  return check_at_most(std::move(name), "relative difference", difference(got, want).relative, bound);
}

}  // namespace foldgrad
