#include "train/loop/trainer.h"

#include <cmath>
#include <limits>

#include "engine/contains.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"

namespace foldgrad {
Trainer::Trainer(Task& task, Optimizer& optimizer, const Schedule& schedule, const TrainerOptions& options)
    : task_(task),
      optimizer_(optimizer),
      schedule_(schedule),
      options_(options),
      parameters_(task.model().parameters()) {
  FOLDGRAD_CHECK(options.accumulate >= 1, "trainer: accumulate must be at least 1, got {}", options.accumulate);
  FOLDGRAD_CHECK(options.clip >= 0, "trainer: clip must be at least 0, got {}", options.clip);
  FOLDGRAD_CHECK(options.agc >= 0, "trainer: agc must be at least 0, got {}", options.agc);
  const std::vector<Parameter*> output = task.model().output_parameters();
  for (Parameter* p : parameters_)
    if (!options.agc_exclude_output || !contains(output, p)) clipped_adaptively_.push_back(p);
  if (options.average_decay != 0)
    average_.emplace(parameters_, options.average_decay,
                     options.average_statistics ? task.model().statistics() : NamedTensors());
  if (options.graphs && options.accumulate == 1 && StepGraphs::can_capture(task.model())) graphs_.emplace(parameters_);
  if (options.dtype == DType::bf16) {
    rounded_.emplace(parameters_);
    optimizer_.round_into(rounded_->values());
  }
  begin_records();
}

void Trainer::step() { records_.push_back(update(tape_)); }

Trainer::Record Trainer::update(Tape& tape, bool eager) {
  if (observer_ && observer_->begin(updates() + 1)) eager = true;
  std::vector<Examples> batches;
  Record record{{}, {}, 0, 0};
  for (std::int64_t k = 0; k < options_.accumulate; ++k) {
    batches.push_back(task_.next());
    record.weight += batches.back().weight;
    record.work += batches.back().work;
  }
  write_numbers(batches, record.weight);
  if (graphs_ && !eager) {
    Examples& batch = batches[0];
    record.losses = graphs_->run(batch.inputs, [&](const NamedTensors& inputs) {
      return compute({{inputs, batch.weight, batch.work}}, tape);
    });
  } else {
    record.losses = compute(batches, tape);
  }
  record.gradient_norm = record.losses.back();
  record.losses.pop_back();
  optimizer_.count_step();
  if (observer_) observer_->end(updates());
  return record;
}

void Trainer::write_numbers(const std::vector<Examples>& batches, std::int64_t weight) {
  const std::int64_t n = optimizer_.steps();
  std::vector<double> numbers{1 / double(weight)};
  for (std::size_t k = 0; k < batches.size(); ++k) {
    const auto random_step = std::uint32_t(n * options_.accumulate + std::int64_t(k));
    numbers.insert(numbers.end(), {double(random_step), double(batches[k].weight)});
  }
  const std::vector<double> rates = optimizer_.next_numbers(schedule_.lr(n));
  numbers.insert(numbers.end(), rates.begin(), rates.end());
  const Tensor written = Tensor::of({std::int64_t(numbers.size())}, numbers);
  if (!numbers_.defined()) numbers_ = Tensor::empty(written.shape(), DType::f64, task_.model().device());
  numbers_.copy_from(written);
}

Tensor Trainer::number(std::int64_t i) const { return numbers_.slice(i, i + 1).reshape(Shape{}); }

std::vector<Tensor> Trainer::compute(const std::vector<Examples>& batches, Tape& tape) {
  const std::int64_t n = optimizer_.steps(), before_rates = 1 + 2 * options_.accumulate;
  std::vector<Tensor> results;
  tape.clear();  // of what a capture that was refused has left
  tape.lend_rounded(rounded_ ? &rounded_->values() : nullptr);
  for (Parameter* p : parameters_) p->zero_grad();
  for (std::int64_t k = 0; k < options_.accumulate; ++k) {
    std::vector<Var> penalties;
    const Tensor step = number(1 + 2 * k), weight = number(2 + 2 * k);
    const ForwardPass pass{.tape = tape,
                           .dtype = options_.dtype,
                           .training = true,
                           .seed = options_.seed,
                           .step = std::uint32_t(n * options_.accumulate + k),
                           .step_at = step.device() == Device::cuda ? step.data<double>() : nullptr,
                           .penalties = &penalties};
    const Var loss = task_.loss(batches[k], pass);
    const auto in_loss = [&](const Tensor& t) { return cast(tape.constant(t), loss.dtype()); };
    Var total = loss;
    for (const Var& penalty : penalties) {
      const Var of_weight = cast(penalty, loss.dtype());
      const Var of_batch = mul(of_weight, in_loss(weight));  // [TRN-2]
      total = add(total, of_batch);
    }
    tape.backward(total, in_loss(number(0)).value());  // [TRN-1]
    results.push_back(loss.value());
    tape.clear();
  }
  if (options_.agc > 0) clip_adaptively(clipped_adaptively_, options_.agc);
  // Also without clipping: the norm reveals gradients that are not finite before they spoil the parameters.
  const GradientClip clip =
      clip_by_norm(parameters_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
  results.push_back(clip.norm);
  optimizer_.update(numbers_.slice(before_rates, numbers_.size()), options_.clip > 0 ? clip.factor : Tensor());
  if (average_) average_->update();
  return results;
}

std::vector<std::string> Trainer::check() {
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
  sums_.seconds += std::chrono::duration<double>(Clock::now() - since_).count();
  if (!records_.empty()) gradient_norm_ = records_.back().gradient_norm.item();
  begin_records();
  return failures;
}

TrainingReport Trainer::report() {
  FOLDGRAD_CHECK(!records_.empty(), "trainer: there was no step since the last report");
  TrainingReport report;
  report.failures = check();
  report.updates = updates();
  report.lr = schedule_.lr(updates() - 1);
  report.gradient_norm = gradient_norm_;
  report.weight = sums_.weight;
  report.work = sums_.work;
  report.loss = sums_.loss / double(sums_.weight);
  report.seconds = sums_.seconds;
  if (graphs_ && graphs_->refusal() != told_refusal_) report.refused_capture = told_refusal_ = graphs_->refusal();
  sums_ = {};
  return report;
}

void Trainer::begin_records() {
  records_.clear();
  good_ = snapshot();
  good_records_ = 0;
  since_ = Clock::now();
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
  good_.cursor = task_.cursor();
  records_.resize(good_records_);
  load(good_);
  while (records_.size() < wanted) step();
  return failure;
}

std::string Trainer::checked_update() {
  const std::int64_t number = updates() + 1;
  Tape tape;
  tape.check_finite(number);
  try {
    update(tape, /*eager=*/true);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  // Every result and its gradient is finite; so it was a sum that overflowed, in a parameter's gradient or in the norm.
  for (const Parameter* p : parameters_)
    for (double g : p->grad.to(DType::f64).values<double>())
      if (!std::isfinite(g))
        return fmt::format("{}: at step {} the gradient has values that are not finite", p->name, number);
  return fmt::format("at step {} the loss or the norm of the gradient is not finite", number);
}

TrainingState Trainer::snapshot() const {
  TrainingState state;
  state.parameters = clone(task_.model().values());
  state.normalizers = task_.model().snapshot();
  state.optimizer = clone(optimizer_.state());
  if (average_) state.average = clone(average_->state());
  state.cursor = task_.cursor();
  state.since_report = sums_;
  return state;
}

void Trainer::restore(const TrainingState& state) {
  load(state);
  sums_ = state.since_report;
  begin_records();
}

void Trainer::load(const TrainingState& state) {
  const NamedTensors parameters = task_.model().values();
  require_alike("trainer", parameters, state.parameters);
  task_.model().restore(state.normalizers);
  optimizer_.load_state(state.optimizer);
  task_.seek(state.cursor);
  copy_into("trainer", parameters, state.parameters);
  if (rounded_) rounded_->refresh();
  if (!average_) return;
  NamedTensors averages = average_->state();
  for (auto& [name, tensor] : averages)
    for (const NamedTensors* from : {&state.average, &state.parameters, &state.normalizers})
      if (const auto found = from->find(name); found != from->end()) {
        tensor = found->second;
        break;
      }
  average_->load_state(averages);
}

}  // namespace foldgrad
