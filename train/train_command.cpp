// foldgrad train: an experiment from its configuration to checkpoints.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <optional>

#include "engine/file.h"
#include "train/checkpoint.h"
#include "train/commands.h"
#include "train/config.h"
#include "train/data/experiment_data.h"
#include "train/digest.h"
#include "train/evaluation.h"
#include "train/event_log.h"
#include "train/exit_codes.h"
#include "train/model_directory.h"
#include "train/run_directory.h"
#include "train/scores/bleu.h"
#include "train/trainer.h"

namespace foldgrad {
namespace {

struct TrainOptions {
  std::string config, out, data_directory;
  std::vector<std::string> settings;
  bool resume = false, allow_config_change = false;
  BuildInfo build;
  std::vector<std::string> command;  // as it was called
};

volatile std::sig_atomic_t interrupted = 0;

// The second signal ends the program at once.
void interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

TransformerConfig model_config(const ExperimentConfig& config, const ExperimentData& data) {
  TransformerConfig model = config.model;
  model.source_vocabulary = data.vocabulary.source_size(), model.target_vocabulary = data.vocabulary.target_size();
  return model;
}

Optimizer::Rule rule_of(const TrainConfig& t) {
  if (t.optimizer == "sgd") return Sgd{t.momentum, t.nesterov};
  if (t.optimizer == "adamw") return AdamW{t.beta1, t.beta2, t.eps};
  return Adam{t.beta1, t.beta2, t.eps};
}

ScheduleOptions schedule_of(const TrainConfig& t) {
  ScheduleOptions s{.name = t.schedule, .peak = t.lr, .initial = t.initial_lr, .warmup = t.warmup};
  if (t.schedule == "cosine") s.minimum = t.minimum_lr, s.total = t.steps;
  return s;
}

// One process's part of a run.
class Session {
 public:
  Session(const TrainOptions& options, const ExperimentConfig& config, const ExperimentData& data)
      : config_(config),
        data_(data),
        run_(options.out),
        model_(model_config(config, data), std::uint64_t(config.train.seed)),
        optimizer_(rule_of(config.train),
                   {{.parameters = model_.parameters(), .weight_decay = config.train.weight_decay}}),
        schedule_(schedule_of(config.train)),
        batches_(data.train.pairs,
                 {.max_tokens = config.train.max_tokens, .seed = std::uint64_t(config.train.seed), .prefetch = true}),
        valid_(data.valid.pairs, {.max_tokens = config.train.max_tokens, .multiple = 1, .shuffle = false}),
        trainer_(model_, optimizer_, schedule_, batches_,
                 {config.train.label_smoothing, config.train.clip, config.train.accumulate,
                  std::uint64_t(config.train.seed), config.train.dtype == "bf16" ? DType::bf16 : DType::f32}) {
    start(options);
  }

  int train() {
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, interrupt);
    const std::int64_t steps = config_.train.steps;
    bool stop = false;  // a copy, so that a signal between two looks at it cannot end the run unsaved
    while (trainer_.updates() < steps && !stop) {
      trainer_.step();
      stop = interrupted;
      const std::int64_t n = trainer_.updates();
      const bool last = n == steps || stop;
      const bool validate = n % config_.validate.every == 0 || n == steps;
      const bool save = last || n % config_.output.save_every == 0;
      // Nothing is saved that has not been found finite.
      if (n % config_.output.log_every == 0 || validate || save) report();
      const bool better = validate && this->validate();
      if (save || better) this->save(better);
    }
    return trainer_.updates() < steps ? kExitInterrupted : kExitOk;
  }

 private:
  void start(const TrainOptions& options) {
    const auto environment = describe_environment(options.build, config_.train.seed, data_.digests);
    if (!options.resume) {
      run_.create(config_text(config_), options.command, environment);
      write_model_config(run_.model(), model_.config());
      log_.emplace(run_.log());
      return;
    }
    const NewestCheckpoint newest = load_newest_checkpoint(run_.checkpoints());
    for (const std::string& warning : newest.warnings) fmt::print(stderr, "warning: {}\n", warning);
    require_config(newest, config_hash(config_), options.allow_config_change);
    const CheckpointContents& c = newest.contents;
    trainer_.restore({c.model,
                      c.norm_state,
                      c.optimizer,
                      {c.state.at("epoch").get<std::int64_t>(), c.state.at("batch").get<std::int64_t>()}});
    best_ = c.state.at("best").get<double>();
    run_.resume(config_text(config_), options.command, environment);
    write_model_config(run_.model(), model_.config());
    log_.emplace(run_.log(), c.log_offset);
    fmt::print(stderr, "resuming at step {}\n", trainer_.updates());
  }

  void report() {
    const TrainingReport r = trainer_.report();
    fmt::print(stderr, "step {:>6}/{}  loss {:7.4f}  gradient {:7.3f}  lr {:.2e}  {:.0f} tokens/s\n", r.updates,
               config_.train.steps, r.loss, r.gradient_norm, r.lr, r.tokens_per_second());
    log_->write({{"event", "train"},
                 {"step", r.updates},
                 {"loss", r.loss},
                 {"gradient_norm", r.gradient_norm},
                 {"lr", r.lr},
                 {"tokens_per_second", r.tokens_per_second()}});
  }

  // Whether it is the best so far.
  bool validate() {
    const ValidationLoss v = validation_loss(model_, valid_);
    Lines hypotheses;
    for (const Ids& ids : translations(model_, data_.valid.pairs.source,
                                       {.beam = config_.validate.beam,
                                       .length_penalty = config_.validate.length_penalty,
                                       .max_length_a = config_.validate.max_length_a,
                                       .max_length_b = config_.validate.max_length_b},
                                       config_.train.max_tokens))
      hypotheses.push_back(data_.vocabulary.decode_target(ids));
    const Bleu bleu = sacre_bleu(hypotheses, data_.valid.text.target);
    fmt::print(stderr, "step {:>6}  validation: loss {:.4f}, perplexity {:.3f}, {} ({})\n", trainer_.updates(), v.loss,
               v.perplexity, bleu.text, bleu.signature);
    log_->write({{"event", "validate"},
                 {"step", trainer_.updates()},
                 {"loss", v.loss},
                 {"perplexity", v.perplexity},
                 {"bleu", bleu.score},
                 {"bleu_signature", bleu.signature}});
    if (bleu.score <= best_) return false;
    best_ = bleu.score;
    return true;
  }

  // A machine that refuses costs this checkpoint, not the training.
  void save(bool best) try {
    const TrainingState s = trainer_.snapshot();
    save_checkpoint(run_.checkpoints(),
                    {.step = trainer_.updates(),
                     .config_hash = config_hash(config_),
                     .log_offset = log_->sync(),
                     .model = s.parameters,
                     .optimizer = s.optimizer,
                     .norm_state = s.normalizers,
                     .state = {{"epoch", s.cursor.epoch}, {"batch", s.cursor.batch}, {"best", best_}}},
                    {.keep = config_.output.keep, .best = best, .companions = run_.model()});
  } catch (const FileError& e) {
    fmt::print(stderr, "warning: no checkpoint at step {}: {}\n", trainer_.updates(), e.what());
  }

  ExperimentConfig config_;
  const ExperimentData& data_;
  RunDirectory run_;
  Transformer model_;
  Optimizer optimizer_;
  Schedule schedule_;
  Batches batches_, valid_;
  Trainer trainer_;
  std::optional<EventLog> log_;
  double best_ = -1;  // BLEU
};

void require_supported(const ExperimentConfig& c) {
  if (c.train.on_nan != "abort") throw ConfigError("train.on_nan: only \"abort\" exists so far");
  if (c.train.average_decay != 0) throw ConfigError("train.average_decay: only 0 exists so far");
  if (c.validate.patience != 0) throw ConfigError("validate.patience: only 0 exists so far");
}

int run_train(const TrainOptions& options) {
  const ExperimentConfig config = read_config(options.config, options.settings);
  require_supported(config);
  const ExperimentData data = read_data(config, data_directory(config.data, options.data_directory));
  return Session(options, config, data).train();
}

}  // namespace

void add_train_command(CLI::App& program, int& exit_code, const BuildInfo& build,
                       const std::vector<std::string>& arguments) {
  CLI::App* command = program.add_subcommand("train", "Train a Transformer on parallel text, on the CPU");
  const auto options = std::make_shared<TrainOptions>();
  options->build = build;
  options->command = arguments;
  command->add_option("CONFIG", options->config, "Configuration, TOML")->required();
  command->add_option("--out", options->out, "Directory of the run")->required();
  command->add_option("--set", options->settings, "SECTION.KEY=VALUE, over what CONFIG says")->allow_extra_args(false);
  command->add_option("--data-dir", options->data_directory, "Below it lies data.directory; before $FOLDGRAD_DATA");
  command->add_flag("--resume", options->resume, "Go on from the newest checkpoint in --out");
  command->add_flag("--allow-config-change", options->allow_config_change, "Resume with another configuration");
  command->footer("Exit codes: 0, 2 configuration, 3 data, 4 checkpoint, 5 diverged, 130 interrupted after saving.");
  command->callback([options, &exit_code] { exit_code = run_train(*options); });
}

}  // namespace foldgrad
