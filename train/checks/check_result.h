// The outcome of checking one property of a model.
#pragma once
#include <fmt/format.h>

#include <string>

namespace foldgrad {

struct CheckResult {
  enum class Outcome { passed, failed, skipped };

  std::string name;  // "folded = unfolded, f64"
  Outcome outcome;
  std::string measured;  // "relative difference 3.1e-15, at most 1e-11"
};

inline CheckResult check_that(std::string name, bool holds, std::string measured) {
  return {std::move(name), holds ? CheckResult::Outcome::passed : CheckResult::Outcome::failed, std::move(measured)};
}
inline CheckResult check_at_most(std::string name, const char* what, double value, double bound) {
  return check_that(std::move(name), value <= bound,  // NaN fails
                    fmt::format("{} {:.2g}, at most {:.0e}", what, value, bound));
}
inline CheckResult check_skipped(std::string name, std::string reason) {
  return {std::move(name), CheckResult::Outcome::skipped, std::move(reason)};
}

}  // namespace foldgrad
