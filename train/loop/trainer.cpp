#include "train/loop/trainer.h"

#include <limits>

#include "engine/contains.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"

namespace foldgrad {
namespace {

// Returns the part of a batch of B examples that a rank computes. Rank r of R takes examples B * r / R to B * (r + 1) /
// R, possibly none. Without a communicator, returns the whole batch.
NamedTensors part_of(const NamedTensors& batch, const Communicator* communicator) {
  if (!communicator) return batch;
  const std::int64_t B = examples_in(batch), r = communicator->rank(), R = communicator->size();
  return part_of(batch, B * r / R, B * (r + 1) / R);
}

}  // namespace

Trainer::Trainer(Task& task, Optimizer& optimizer, const Schedule& schedule, const TrainerOptions& options,
                 Communicator* communicator)
    : task_(task),
      optimizer_(optimizer),
      schedule_(schedule),
      options_(options),
      communicator_(communicator),
      parameters_(task.model().parameters()),
      trained_(parameters_) {
  FOLDGRAD_CHECK(options.accumulate >= 1, "trainer: accumulate must be at least 1, got {}", options.accumulate);
  FOLDGRAD_CHECK(options.clip >= 0, "trainer: clip must be at least 0, got {}", options.clip);
  FOLDGRAD_CHECK(options.agc >= 0, "trainer: agc must be at least 0, got {}", options.agc);
  std::erase_if(trained_, [updated = optimizer.parameters()](Parameter* p) { return !contains(updated, p); });
  clipped_adaptively_ = trained_;
  if (options.agc_exclude == Unclipped::output)
    std::erase_if(clipped_adaptively_,
                  [output = task.model().output_parameters()](Parameter* p) { return contains(output, p); });
  if (communicator) gradient_sum_.emplace(*communicator, trained_);
  if (options.average_decay != 0)
    average_.emplace(parameters_, options.average_decay,
                     options.average_statistics ? task.model().statistics() : NamedTensors());
  if (options.dtype == DType::bf16) round_values(parameters_);
  begin_records();
}

void Trainer::step() {
  if (records_.empty()) since_ = Clock::now();  // starts the clock now, since a validation may run between updates
  records_.push_back(update(tape_, /*send_early=*/true));
}

Trainer::Record Trainer::update(Tape& tape, bool send_early) {
  if (observer_) observer_->begin(updates() + 1);
  if (communicator_) communicator_->at_step(updates() + 1);
  std::vector<Examples> batches;
  Record record;
  for (std::int64_t k = 0; k < options_.accumulate; ++k) {
    batches.push_back(task_.next());
    record.weight += batches.back().weight;
    record.work += batches.back().work;
  }
  for (Parameter* p : parameters_) p->zero_grad();
  for (std::int64_t k = 0; k < options_.accumulate; ++k)
    record.losses.push_back(compute(batches[k], updates() * options_.accumulate + k, record.weight, tape,
                                    send_early && k + 1 == options_.accumulate));
  if (gradient_sum_) gradient_sum_->finish(record.losses);
  if (options_.agc > 0 && !clipped_adaptively_.empty()) clip_adaptively(clipped_adaptively_, options_.agc);
  // Computes the norm even without clipping: it reveals non-finite gradients before they spoil the parameters.
  const GradientClip clip =
      clip_by_norm(trained_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
  record.gradient_norm = clip.norm;
  optimizer_.step(schedule_.lr(updates()), options_.clip > 0 ? clip.factor : Tensor());
  if (communicator_ && !options_.sync_norms)
    for (const auto& [name, tensor] : task_.model().state()) communicator_->broadcast(tensor);  // as PyTorch's DDP does
  if (average_) average_->update();
  if (observer_) observer_->end(updates());
  return record;
}

Tensor Trainer::compute(const Examples& batch, std::int64_t random_step, std::int64_t total_weight, Tape& tape,
                        bool send_early) {
  tape.clear();
  std::vector<Var> penalties;
  const ForwardPass pass{.tape = tape,
                         .dtype = options_.dtype,
                         .training = true,
                         .seed = std::uint64_t(options_.seed),
                         .step = std::uint32_t(random_step),
                         .penalties = &penalties,
                         .communicator = communicator_,
                         .synchronous_norms = options_.sync_norms};
  Model& model = task_.model();
  const NamedTensors inputs = part_of(batch.inputs, communicator_);
  // Keeps no reference to the logits, so that the backward pass frees them.
  const Var loss = model.loss_of(model.forward(inputs, pass), inputs, options_.label_smoothing);
  Var total = loss;
  for (Var penalty : penalties) {
    // If each rank has its own statistics, it also has its own penalty. The mean of the penalties enters the loss.
    if (communicator_ && !options_.sync_norms) penalty = scale(penalty, 1.0 / communicator_->size());
    total = add(total, cast(penalty, loss.dtype()));  // [TRN-2]
  }
  if (gradient_sum_ && send_early) gradient_sum_->watch(tape);
  tape.backward(total, Tensor::full({}, 1 / double(total_weight), loss.dtype(), loss.device()));  // [TRN-1]
  return loss.value();
}

TrainingReport Trainer::report() {
  FOLDGRAD_CHECK(!records_.empty(), "trainer: there has been no step since the last report");
  TrainingReport report;
  report.failures = check();
  report.updates = updates();
  report.lr = schedule_.lr(updates() - 1);
  report.gradient_norm = gradient_norm_;
  report.weight = sums_.weight;
  report.work = sums_.work;
  report.loss = sums_.loss / double(sums_.weight);
  report.seconds = sums_.seconds;
  sums_ = {};
  return report;
}

TrainingState Trainer::snapshot() const {
  return {.parameters = clone(task_.model().values()),
          .normalizers = task_.model().snapshot(),
          .optimizer = clone(optimizer_.state()),
          .average = average_ ? clone(average_->state()) : NamedTensors(),
          .cursor = task_.batches().cursor(),
          .since_report = sums_};
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
  task_.batches().seek(state.cursor);
  copy_into("trainer", parameters, state.parameters);
  if (options_.dtype == DType::bf16) round_values(parameters_);
  if (!average_) return;
  NamedTensors all = state.average, averages = average_->state();
  all.insert(state.parameters.begin(), state.parameters.end());
  all.insert(state.normalizers.begin(), state.normalizers.end());
  for (auto& [name, tensor] : averages) tensor = all.at(name);
  average_->load_state(averages);
}

}  // namespace foldgrad
