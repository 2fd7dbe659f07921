// foldgrad demo: trains a Transformer on the embedded task, shows what it has learned, folds it and verifies it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/files/atomic_file.h"
#include "models/transformer/beam_search.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/commands/commands.h"
#include "train/data/text/experiment_data.h"
#include "train/data/text/numbers.h"
#include "train/loop/trainer.h"
#include "train/runs/setup.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"
#include "train/tasks/families.h"
#include "train/tasks/translation_scores.h"

namespace foldgrad {
namespace {

struct DemoOptions {
  std::string norm = "un", device = "auto";
  std::int64_t steps = 1500;
  std::uint64_t seed = 1;
  std::string out;  // a directory; empty: nothing is written
  bool json = false;
};

struct Folding {
  nlohmann::ordered_json certificate;
  std::size_t same = 0;  // translations
  double decode_seconds = 0;
  std::vector<CheckResult> checks = {};

  std::size_t count(const char* outcome) const {
    std::size_t n = 0;
    for (const auto& site : certificate.at("sites")) n += site.at("outcome") == outcome;
    return n;
  }
  std::size_t count(CheckResult::Outcome outcome) const {
    return std::size_t(std::ranges::count_if(checks, [&](const CheckResult& c) { return c.outcome == outcome; }));
  }
};

struct DemoResult {
  std::int64_t parameters = 0;
  ParallelText test;
  Lines hypotheses;
  TranslationScores scores;
  Folding folding;
  double train_seconds = 0, decode_seconds = 0, tokens_per_second = 0;
};

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;  // Linux counts in KiB
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// configs/numbers-un.toml with another normalizer and another number of updates.
ExperimentConfig demo_config(const DemoOptions& options) {
  ExperimentConfig config;
  TransformerConfig& model = config.model;
  model.width = 128, model.ffn_width = 512;
  model.encoder_layers = model.decoder_layers = 2;
  model.max_positions = 128;
  model.dropout = model.attention_dropout = model.activation_dropout = 0;  // pairs hardly ever come twice
  model.normalizer = options.norm;
  // Their defaults are for 100,000 updates.
  for (const NormalizerOption& option : normalizer_info(options.norm).options)
    if (option.name == "warmup") model.normalizer_options["warmup"] = std::to_string(options.steps / 10);
  config.data.task = "numbers";
  TrainConfig& train = config.train;
  train.steps = options.steps + 1;  // one more than are made, so that the cosine's last update is not nothing
  train.warmup = std::max<std::int64_t>(1, options.steps / 10);
  train.seed = std::int64_t(options.seed);
  train.max_tokens = 2048;
  train.schedule = "cosine";
  train.lr = 3e-3, train.initial_lr = 0, train.eps = 1e-9, train.weight_decay = 0;
  train.clip = 1, train.label_smoothing = 0;
  return config;
}

void train(Trainer& trainer, std::int64_t steps, DemoResult& result) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t every = std::max<std::int64_t>(1, steps / 20);
  std::int64_t tokens = 0;
  while (trainer.updates() < steps) {
    trainer.step();
    if (trainer.updates() % every && trainer.updates() < steps) continue;
    const TrainingReport r = trainer.report();
    tokens += r.work;
    const double seconds = seconds_since(start), left = seconds / double(r.updates) * double(steps - r.updates);
    say("step {:>5}/{}  loss {:7.4f}  gradient {:6.3f}  lr {:.2e}  {:>6.0f} tokens/s  {:.0f} s left\n", r.updates,
        steps, r.loss, r.gradient_norm, r.lr, r.work_per_second(), left);
  }
  result.train_seconds = seconds_since(start);
  result.tokens_per_second = double(tokens) / result.train_seconds;
}

// Greedily. English number words take up to twice the parts of the German ones.
Lines translate(Model& model, const Vocabulary& vocabulary, const Lines& sources) {
  std::vector<Ids> ids;
  for (const std::string& line : sources) ids.push_back(vocabulary.encode_source(line));
  Lines lines;
  const auto inference = InferenceTransformer::make(as_transformer(model, "demo"));
  for (const Ids& best : translations(*inference, ids, {.beam = 1, .max_length_a = 2}))
    lines.push_back(vocabulary.decode_target(best));
  return lines;
}

// Into a table of its own for the output, so that the last normalizer goes too.
Folding fold_and_verify(const Task& task, Model& model, const Vocabulary& vocabulary, const DemoResult& result,
                        const std::string& out) {
  const FoldOptions options{.tied = FoldOptions::Tied::untie};
  const Probe probe = random_probe(model);
  const FoldedModel folded = fold(model, options);
  Folding f{.certificate = certificate(model, folded, options, probe)};
  const auto start = std::chrono::steady_clock::now();
  const Lines hypotheses = translate(*folded.model, vocabulary, result.test.source);
  f.decode_seconds = seconds_since(start);
  for (std::size_t i = 0; i < hypotheses.size(); ++i) f.same += hypotheses[i] == result.hypotheses[i];
  f.checks = check_model(
      model, [&options](Model& m) { return fold(m, options); }, probe, family_of(model).checks);
  if (out.empty()) return f;
  write_model_directory(out + "/model", model);
  task.write_companions(out + "/model");
  write_model_directory(out + "/folded", *folded.model, out + "/model/vocabulary");
  add_digests(f.certificate, out + "/model", out + "/folded");
  write_file_atomically(out + "/folded/certificate.json", f.certificate.dump(2) + "\n");
  return f;
}

DemoResult run_demo(const DemoOptions& options) {
  const Device device = require_device(options.device);
  const ExperimentConfig config = demo_config(options);
  say("German to English number words: {} pairs to learn from, {} unseen ones to test\n", numbers::kTrainPairs,
      numbers::kTestPairs);
  const std::unique_ptr<Task> task = family(config.family).make_task(config, "", "", device);
  Model& model = task->model();
  const Vocabulary vocabulary = Vocabulary::numbers();
  DemoResult result;
  result.parameters = model.parameter_count();
  translate(model, vocabulary, {""});  // a normalizer that cannot decode is refused now, not after the training

  say("Transformer with {}: {} + {} layers, width {}, {} parameters\n", options.norm, config.model.encoder_layers,
      config.model.decoder_layers, config.model.width, result.parameters);
  Optimizer optimizer(optimizer_rule(config.train), {{.parameters = model.parameters()}});
  const Schedule schedule(schedule_options(config.train));
  Trainer trainer(*task, optimizer, schedule, trainer_options(config.train));
  train(trainer, options.steps, result);

  result.test = read_text(config.data, "", config.data.test);
  const EncodedPairs test = encode(vocabulary, result.test);
  Batches batches(test, {.max_tokens = config.train.max_tokens, .multiple = 1, .shuffle = false});
  const ValidationLoss loss = validation_loss(as_transformer(model, "demo"), batches);
  const auto start = std::chrono::steady_clock::now();
  result.hypotheses = translate(model, vocabulary, result.test.source);
  result.decode_seconds = seconds_since(start);
  result.scores = score_translations(loss, result.hypotheses, result.test.target);
  result.folding = fold_and_verify(*task, model, vocabulary, result, options.out);
  return result;
}

void print_folding(const Folding& f, std::size_t sentences) {
  const auto& difference = f.certificate.at("difference");
  const auto& sites = f.certificate.at("sites");
  const bool gone = std::all_of(sites.begin(), sites.end(), [](const auto& site) { return site.at("left") == "none"; });
  fmt::print("folding         {}{} of {} normalizers into the linear layers behind them; {}\n",
             gone ? "" : "gain and bias of ", f.count("folded"), sites.size(),
             gone ? "nothing is left" : "statistics stay");
  for (const auto& site : sites)
    for (const auto& kept : site.at("kept"))
      fmt::print("                not {}: {}\n", kept.at("edge").get<std::string>(),
                 kept.at("reason").get<std::string>());
  for (const char* dtype : {"f64", "f32"})
    fmt::print("                logits in {} differ by {:.2g} of the greatest\n", dtype,
               difference.at(dtype).at("relative").get<double>());
  fmt::print("                {} of {} translations are the same, in {:.1f} s\n", f.same, sentences, f.decode_seconds);
  fmt::print("verify          {} checks passed, {} skipped, {} failed\n", f.count(CheckResult::Outcome::passed),
             f.count(CheckResult::Outcome::skipped), f.count(CheckResult::Outcome::failed));
  for (const CheckResult& c : f.checks)
    if (c.outcome == CheckResult::Outcome::failed) fmt::print("  FAILED        {}: {}\n", c.name, c.measured);
}

void print_text(const DemoResult& r, const DemoOptions& options) {
  fmt::print("Unseen numbers, translated by greedy decoding:\n");
  for (std::size_t i = 0; i < 8; ++i)
    fmt::print("  {}\n    {}{}\n", r.test.source[i], r.hypotheses[i],
               r.hypotheses[i] == r.test.target[i] ? "" : "    (wrong: " + r.test.target[i] + ")");
  fmt::print("\nexact match     {:.1f} % of {}\n", r.scores.exact, r.test.source.size());
  fmt::print("perplexity      {:.4f} per part of a word\n", r.scores.loss.perplexity);
  fmt::print("BLEU            {}\n", r.scores.sacre.text);
  fmt::print("training        {} steps, {:.1f} s, {:.0f} tokens/s\n", options.steps, r.train_seconds,
             r.tokens_per_second);
  fmt::print("decoding        {:.1f} s\n", r.decode_seconds);
  fmt::print("peak memory     {:.0f} MiB\n\n", peak_mebibytes());
  print_folding(r.folding, r.test.source.size());
}

nlohmann::ordered_json json_of(const DemoResult& r, const DemoOptions& options) {
  const Bleu& bleu = r.scores.sacre;
  return {{"norm", options.norm},
          {"steps", options.steps},
          {"seed", options.seed},
          {"parameters", r.parameters},
          {"exact_match", r.scores.exact},
          {"perplexity", r.scores.loss.perplexity},
          {"bleu", bleu.score},
          {"bleu_signature", bleu.signature},
          {"train_seconds", r.train_seconds},
          {"tokens_per_second", r.tokens_per_second},
          {"decode_seconds", r.decode_seconds},
          {"peak_memory_mib", peak_mebibytes()},
          {"sites", r.folding.certificate.at("sites").size()},
          {"folded_sites", r.folding.count("folded")},
          {"folded_difference", r.folding.certificate.at("difference")},
          {"folded_same_translations", r.folding.same},
          {"folded_decode_seconds", r.folding.decode_seconds},
          {"failed_checks", r.folding.count(CheckResult::Outcome::failed)}};
}

std::string check_norm(const std::string& norm) {
  try {
    (void)normalizer_info(norm);
    return "";
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

}  // namespace

Action add_demo(CLI::App& command) {
  const auto options = std::make_shared<DemoOptions>();
  command.add_option("--norm", options->norm, "Normalizer, one that `foldgrad norms` lists")
      ->check(CLI::Validator(check_norm, "NAME"))
      ->capture_default_str();
  command.add_option("--steps", options->steps, "Updates")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1000000)))
      ->capture_default_str();
  command.add_option("--seed", options->seed, "Seed of the initial weights and of the order of the data")
      ->capture_default_str();
  command.add_option("--out", options->out, "Directory for the model and the folded model with its certificate");
  add_device_option(command, options->device);
  command.add_flag("--json", options->json, "Print JSON");
  command.footer("Exit codes: 0, 1 a check failed, 3 files, 5 a number is not finite, 6 device.");
  return [options] {
    const DemoResult result = run_demo(*options);
    options->json ? print_json(json_of(result, *options)) : print_text(result, *options);
    return result.folding.count(CheckResult::Outcome::failed) ? kExitCheckFailed : kExitOk;
  };
}

}  // namespace foldgrad
