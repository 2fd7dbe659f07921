#include "train/trainer.h"

#include <cmath>
#include <limits>

namespace foldgrad {
namespace {

std::map<std::string, Tensor> cloned(std::map<std::string, Tensor> tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

Tensor mask_of(const Tensor& ids) {
  const Tensor mask = Tensor::empty(ids.shape(), DType::u8);
  const std::int64_t* id = ids.data<std::int64_t>();
  std::uint8_t* real = mask.data<std::uint8_t>();
  for (std::int64_t i = 0; i < ids.size(); ++i) real[i] = id[i] != kPad;
  return mask;
}

}  // namespace

TranslationBatch to_device(const Batch& batch, Device device) {
  return {batch.source.to(device), mask_of(batch.source).to(device), batch.previous.to(device),
          mask_of(batch.previous).to(device), batch.target.to(device)};
}

Trainer::Trainer(Transformer& model, Optimizer& optimizer, const Schedule& schedule, Batches& batches,
                 const TrainerOptions& options)
    : model_(model),
      optimizer_(optimizer),
      schedule_(schedule),
      batches_(batches),
      options_(options),
      parameters_(model.parameters()) {
  FOLDGRAD_CHECK(options.accumulate >= 1, "trainer: accumulate must be at least 1, got {}", options.accumulate);
  FOLDGRAD_CHECK(options.clip >= 0, "trainer: clip must be at least 0, got {}", options.clip);
  begin_report();
}

void Trainer::step() { records_.push_back(update(tape_)); }

Trainer::Record Trainer::update(Tape& tape) {
  const std::int64_t n = optimizer_.steps();
  std::vector<Batch> batches;
  Record record{{}, {}, 0, 0};
  for (std::int64_t k = 0; k < options_.accumulate; ++k) {
    batches.push_back(batches_.next());
    record.source_tokens += batches.back().source_tokens;
    record.target_tokens += batches.back().target_tokens;
  }
  for (Parameter* p : parameters_) p->zero_grad();
  for (std::int64_t k = 0; k < options_.accumulate; ++k) {
    const ForwardPass pass{.tape = tape,
                           .dtype = options_.dtype,
                           .training = true,
                           .seed = options_.seed,
                           .step = std::uint32_t(n * options_.accumulate + k)};
    const Var loss = model_.loss(to_device(batches[k], model_.device()), pass, options_.label_smoothing);
    tape.backward(loss, Tensor::full({}, 1 / double(record.target_tokens), loss.dtype(), loss.device()));  // [TRN-1]
    record.losses.push_back(loss.value());
    tape.clear();
  }
  // Also without clipping: the norm tells of gradients that are not finite before they spoil the parameters.
  const GradientClip clip =
      clip_by_norm(parameters_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
  record.gradient_norm = clip.norm;
  optimizer_.step(schedule_.lr(n), options_.clip > 0 ? clip.factor : Tensor());
  return record;
}

TrainingReport Trainer::report() {
  FOLDGRAD_CHECK(!records_.empty(), "trainer: there was no step since the last report");
  TrainingReport report;
  report.updates = updates();
  report.lr = schedule_.lr(updates() - 1);
  const std::int64_t first = updates() - std::int64_t(records_.size()) + 1;
  double loss = 0;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& r = records_[i];
    report.gradient_norm = r.gradient_norm.item();
    double sum = 0;
    for (const Tensor& batch : r.losses) sum += batch.item();
    if (!std::isfinite(sum) || !std::isfinite(report.gradient_norm)) diverged(first + std::int64_t(i));
    loss += sum;
    report.source_tokens += r.source_tokens;
    report.target_tokens += r.target_tokens;
  }
  report.loss = loss / double(report.target_tokens);
  report.seconds = std::chrono::duration<double>(Clock::now() - since_).count();
  begin_report();
  return report;
}

void Trainer::begin_report() {
  records_.clear();
  reported_ = snapshot();
  since_ = Clock::now();
}

void Trainer::diverged(std::int64_t update_number) {
  restore(reported_);
  while (updates() < update_number) {
    Tape tape;
    tape.check_finite(updates() + 1);
    try {
      update(tape);
    } catch (const std::runtime_error& e) {
      throw Diverged(e.what());
    }
  }
  // Every result and its gradient is finite: left are sums, those of a parameter's gradient or of the norm.
  for (const Parameter* p : parameters_)
    for (double g : p->grad.to(DType::f64).values<double>())
      if (!std::isfinite(g))
        throw Diverged(
            fmt::format("{}: at step {} the gradient has values that are not finite", p->name, update_number));
  throw Diverged(fmt::format("at step {} the loss or the norm of the gradient is not finite", update_number));
}

TrainingState Trainer::snapshot() const {
  TrainingState state;
  for (const Parameter* p : parameters_) state.parameters.emplace(p->name, p->value.clone());
  state.normalizers = model_.snapshot();
  state.optimizer = cloned(optimizer_.state());
  state.cursor = batches_.cursor();
  return state;
}

void Trainer::restore(const TrainingState& state) {
  for (const Parameter* p : parameters_) {
    const auto found = state.parameters.find(p->name);
    FOLDGRAD_CHECK(found != state.parameters.end(), "trainer: the state has no parameter {}", p->name);
    FOLDGRAD_CHECK(found->second.shape() == p->value.shape() && found->second.dtype() == p->value.dtype(),
                   "trainer: parameter {} must be {} {}, got {} {}", p->name, name(p->value.dtype()), p->value.shape(),
                   name(found->second.dtype()), found->second.shape());
  }
  model_.restore(state.normalizers);
  optimizer_.load_state(state.optimizer);
  batches_.seek(state.cursor);
  for (const Parameter* p : parameters_) p->value.copy_from(state.parameters.at(p->name));
  begin_report();
}

}  // namespace foldgrad
