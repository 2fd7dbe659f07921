// The sections that all configurations have. Each is a struct, followed by a function that visits its keys.
//
// visit_keys(section, visitor) calls visitor(member, ConfigKey) for every key. A member is std::int64_t, double, bool,
// std::string, a vector of std::int64_t or std::string, or an enumeration with names (models/options/names.h).
#pragma once
#include "models/options/key.h"
#include "train/loop/schedule.h"
#include "train/loop/trainer_options.h"

namespace foldgrad {

enum class UpdateRule { adam, adamw, sgd };
constexpr auto names_of(UpdateRule) { return std::array{"adam", "adamw", "sgd"}; }

// The parameters that weight decay skips.
enum class Undecayed { none, vectors };
constexpr auto names_of(Undecayed) { return std::array{"none", "vectors"}; }

// The treatment of the output layer when training starts from a model.
enum class Head { automatic, keep, fresh };
constexpr auto names_of(Head) { return std::array{"auto", "keep", "new"}; }

constexpr auto values_of(DType) { return std::array{DType::f32, DType::bf16}; }  // types of activations

struct TrainConfig : TrainerOptions {
  std::int64_t steps = 60000, epochs = 0;         // if positive, epochs replaces steps
  std::int64_t warmup = 4000, warmup_epochs = 0;  // if positive, warmup_epochs replaces warmup
  UpdateRule optimizer = UpdateRule::adam;
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 1e-4;
  Undecayed no_decay = Undecayed::none;
  ScheduleShape schedule = ScheduleShape::inverse_sqrt;
  double lr = 5e-4, initial_lr = 1e-7, minimum_lr = 0;
  std::string from;  // path of a model to start from; empty for random weights
  Head head = Head::automatic;
  bool reset_iterations = true;
  std::vector<std::string> rates, freeze;
  std::int64_t shards = 0;
  bool operator==(const TrainConfig&) const = default;
};

// Visits the keys that count epochs, and each key that counts updates unless its counterpart in epochs is positive.
void visit_length_keys(KeysOf<TrainConfig> auto& t, const auto& v) {
  const auto length = [&t](const ConfigKey& key) {
    return t.schedule == ScheduleShape::cosine ? key : off_trajectory(key);
  };
  v(t.epochs, newer(length(ConfigKey("train", "epochs", "epochs",
                                     "Number of passes through the data; if 0, train.steps is used instead",
                                     within(0, kMostOfASize)))));
  if (t.epochs == 0)
    v(t.steps, length(ConfigKey("train", "steps", "updates", "Number of training steps", at_least(1))));
  keys_in("train", v, newer)(
      t.warmup_epochs, "warmup_epochs", "epochs",
      "Length of the linear warm-up to the peak learning rate; if 0, train.warmup is used instead",
      within(0, kMostOfASize));
  if (t.warmup_epochs == 0)
    keys_in("train", v)(t.warmup, "warmup", "updates", "Length of the linear warm-up to the peak learning rate",
                        at_least(0));
}

void visit_keys(KeysOf<TrainConfig> auto& t, const auto& v) {
  const auto train = keys_in("train", v), newer_key = keys_in("train", v, newer);
  visit_length_keys(t, v);
  train(t.accumulate, "accumulate", "batches", "Batches per update", within(1, kMostOfASize));
  train(t.optimizer, "optimizer", "", "Update rule");
  train(t.beta1, "beta1", "", "Decay rate of the first moment (adam, adamw)", kFraction);
  train(t.beta2, "beta2", "", "Decay rate of the second moment (adam, adamw)", kFraction);
  train(t.eps, "eps", "", "Value added to the square root of the second moment (adam, adamw)", above(0));
  train(t.momentum, "momentum", "", "Momentum (sgd)", kFraction);
  train(t.nesterov, "nesterov", "", "Use Nesterov momentum (sgd)");
  train(t.weight_decay, "weight_decay", "", "Weight decay; each update multiplies it by the learning rate",
        at_least(0));
  newer_key(t.no_decay, "no_decay", "",
            "Parameters that weight decay skips: none, or vectors (biases, gains and learned positions)");
  train(t.lr, "lr", "", "Peak learning rate", above(0));
  train(t.schedule, "schedule", "", "Shape of the learning-rate schedule");
  train(t.initial_lr, "initial_lr", "", "Learning rate of the first update", at_least(0));
  train(t.minimum_lr, "minimum_lr", "", "Final learning rate of the cosine schedule", at_least(0));
  train(t.clip, "clip", "", "Clip the gradient's norm to this value; 0 turns clipping off", at_least(0));
  train(t.agc, "agc", "",
        "Adaptive clipping: the largest allowed ratio of a unit's gradient norm to its weight norm; 0 turns it off",
        at_least(0));
  train(t.agc_exclude, "agc_exclude", "", "Parameters without agc");
  train(t.label_smoothing, "label_smoothing", "", "Label smoothing: the weight of the uniform distribution", kFraction);
  train(t.average_decay, "average_decay", "",
        "Decay rate of the moving average of the weights; 0 turns the average off", kFraction);
  newer_key(t.average_statistics, "average_statistics", "",
            "Average the normalizers' running statistics along with the weights");
  train(t.dtype, "dtype", "", "Data type of activations; weights and moments are always f32");
  train(t.seed, "seed", "", "Seed for the initial weights, dropout and the order of the data", at_least(0));
  train(t.on_nan, "on_nan", "", "What to do if a loss or gradient is not finite");
  newer_key(t.from, "from", "",
            "Model to start from: a model directory, a checkpoint or a run; if empty, weights are random");
  newer_key(
      t.head, "head", "",
      "Output layer with train.from: keep, new, or auto (new if the model's classes differ from those of the data)");
  newer_key(t.reset_iterations, "reset_iterations", "",
            "With train.from, restart the normalizers' iteration counts at 0, so that their warm-up runs again");
  newer_key(t.rates, "rates", "",
            "PATTERN=FACTOR: multiplies the learning rate of the parameters whose names match; if several patterns "
            "match, the last one applies");
  newer_key(t.freeze, "freeze", "", "Name patterns of the parameters to freeze");
  newer_key(t.shards, "shards", "parts",
            "Number of parts of a batch, one for each rank; must be a power of two; 0 means one for each process",
            within(0, 1024));
  keys_in("norm", v, newer)(t.sync_norms, "sync", "",
                            "With several ranks, compute per-channel statistics over the whole batch");
}

struct ValidateConfig {
  std::int64_t every = 1000, patience = 0;
  bool operator==(const ValidateConfig&) const = default;
};

void visit_keys(KeysOf<ValidateConfig> auto& e, const auto& v) {
  const auto validate = keys_in("validate", v);
  validate(e.every, "every", "updates", "Updates between validations", at_least(1));
  validate(e.patience, "patience", "validations",
           "Number of validations without a better score after which training stops; 0 means never", at_least(0));
}

struct OutputConfig {
  std::int64_t log_every = 100, save_every = 1000, keep = 5;
  bool operator==(const OutputConfig&) const = default;
};

void visit_keys(KeysOf<OutputConfig> auto& o, const auto& v) {
  const auto output = keys_in("output", v);
  output(o.log_every, "log_every", "updates", "Updates between log lines", at_least(1));
  output(o.save_every, "save_every", "updates", "Updates between checkpoints", at_least(1));
  output(o.keep, "keep", "checkpoints", "Number of newest checkpoints to keep in addition to the best one",
         at_least(1));
}

// When to record normalizers (train/analyses/recorder.h).
struct RecordConfig {
  std::vector<std::int64_t> from;  // first update of each phase, counted from the end if negative
  std::int64_t steps = 182;        // number of updates per phase
  bool operator==(const RecordConfig&) const = default;
};

void visit_keys(KeysOf<RecordConfig> auto& r, const auto& v) {
  const auto record = keys_in("record", v);
  record(r.from, "from", "updates",
         "First update of each recording; negative numbers count from the end: -200 is the 200th update from the end");
  record(r.steps, "steps", "updates", "Number of updates in each recording", within(1, kMostOfASize));
}

}  // namespace foldgrad
