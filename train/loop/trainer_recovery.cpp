// How a trainer recovers from a loss or a gradient that is not finite.
#include <algorithm>
#include <cmath>

#include "train/loop/trainer.h"

namespace foldgrad {
namespace {

// Returns the operation, step and position of the first non-finite number, or an empty string if all are finite.
std::string not_finite(std::int64_t step, const Node& node, const char* what, const Tensor& t) {
  const std::vector<double> values = t.to(DType::f64).values<double>();
  const auto bad = std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  if (bad == values.end()) return "";
  const auto count = std::count_if(bad, values.end(), [](double v) { return !std::isfinite(v); });
  return fmt::format("{}{}{}: at step {} the {} {} has {} values that are not finite; the first is {} at {}",
                     node.scope(), node.scope().empty() ? "" : ": ", node.name(), step, what, t.shape(), count, *bad,
                     bad - values.begin());
}

}  // namespace

std::vector<std::string> Trainer::check() {
  // Reads since_ first, since mend() repeats updates, which overwrites it.
  const Clock::time_point begin = records_.empty() ? Clock::now() : since_;
  std::vector<std::string> failures;
  while (true) {
    const std::size_t failed = first_failure();
    if (failed == records_.size()) break;
    failures.push_back(mend(failed));
    if (options_.on_nan == OnNan::abort) throw Diverged(failures.back());
    if (int(failures.size()) == kMostFailures)
      throw Diverged(fmt::format("{}; this is failure {} since the last report", failures.back(), kMostFailures));
  }
  for (const Record& r : records_) {
    for (const Tensor& batch : r.losses) sums_.loss += batch.item();
    sums_.weight += r.weight;
    sums_.work += r.work;
  }
  sums_.seconds += seconds_since(begin);
  if (!records_.empty()) gradient_norm_ = records_.back().gradient_norm.item();
  begin_records();
  return failures;
}

void Trainer::begin_records() {
  records_.clear();
  good_ = snapshot();
  good_records_ = 0;
}

std::size_t Trainer::first_failure() const {
  for (std::size_t i = good_records_; i < records_.size(); ++i) {
    double sum = records_[i].gradient_norm.item();
    for (const Tensor& batch : records_[i].losses) sum += batch.item();
    if (!std::isfinite(sum)) return i;
  }
  return records_.size();
}

std::string Trainer::mend(std::size_t failed) {
  const std::size_t wanted = records_.size();
  records_.resize(good_records_);
  load(good_);
  while (records_.size() < failed) step();
  TrainingState before = snapshot();
  const std::string failure = checked_update();
  if (options_.on_nan == OnNan::abort) return failure;
  if (options_.on_nan == OnNan::skip) {
    good_ = std::move(before);
    good_records_ = failed;
  }
  good_.cursor = task_.batches().cursor();
  records_.resize(good_records_);
  load(good_);
  while (records_.size() < wanted) step();
  return failure;
}

std::string Trainer::checked_update() {
  const std::int64_t number = updates() + 1;
  Tape tape;
  std::string failure;  // the first failure; the pass continues after it, since other ranks wait for this rank
  const auto check = [&](const Node& node, const char* what, const Tensor& t) {
    if (failure.empty()) failure = not_finite(number, node, what, t);
  };
  tape.observe([&](const Node& node, const Tensor& y) { check(node, "result", y); },
               [&](const Node& node, const Tensor& dy) { check(node, "gradient of the result", dy); });
  update(tape, /*send_early=*/false);  // calls the observers above
  if (communicator_) failure = communicator_->first_text(failure);
  if (!failure.empty()) return failure;
  // All results and their gradients are finite, so a sum overflowed, in a parameter's gradient or in the norm.
  for (const Parameter* p : trained_)
    for (double g : p->grad.to(DType::f64).values<double>())
      if (!std::isfinite(g))
        return fmt::format("{}: at step {} the gradient has values that are not finite", p->name, number);
  return fmt::format("at step {} the loss or the norm of the gradient is not finite", number);
}

}  // namespace foldgrad
