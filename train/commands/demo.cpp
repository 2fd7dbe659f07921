// foldgrad demo: trains a Transformer on the embedded task, shows what it has learned, folds it and verifies it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/files/atomic_file.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/commands/commands.h"
#include "train/data/text/bpe.h"
#include "train/data/text/numbers.h"
#include "train/loop/trainer.h"
#include "train/scores/chrf.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"
#include "train/tasks/evaluation.h"

namespace foldgrad {
namespace {

struct DemoOptions {
  std::string norm = "un";
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
    return std::size_t(
        std::count_if(checks.begin(), checks.end(), [&](const CheckResult& c) { return c.outcome == outcome; }));
  }
};

struct DemoResult {
  TransformerConfig config;
  std::int64_t parameters = 0;
  ParallelText test;
  Lines hypotheses;
  ValidationLoss validation;
  Folding folding;
  double train_seconds = 0, decode_seconds = 0, tokens_per_second = 0;

  double exact() const { return exact_match(hypotheses, test.target); }
};

constexpr std::int64_t kTrainPairs = 200000, kTestPairs = 1000, kMaxTokens = 2048;

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;  // Linux counts in KiB
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

EncodedPairs encoded(const Dictionary& dictionary, const ParallelText& text) {
  EncodedPairs pairs;
  for (const std::string& line : text.source) pairs.source.push_back(dictionary.encode(numbers::cut(line)));
  for (const std::string& line : text.target) pairs.target.push_back(dictionary.encode(numbers::cut(line)));
  return pairs;
}

TransformerConfig model_config(const DemoOptions& options, std::int64_t vocabulary) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = vocabulary;
  config.width = 128, config.ffn_width = 512, config.heads = 4;
  config.encoder_layers = config.decoder_layers = 2;
  config.max_positions = 128;
  config.dropout = config.attention_dropout = config.activation_dropout = 0;  // pairs hardly ever come twice
  config.normalizer = options.norm;
  // Their defaults are for 100,000 updates.
  for (const NormalizerOption& option : normalizer_info(options.norm).options)
    if (option.name == "warmup") config.normalizer_options["warmup"] = std::to_string(options.steps / 10);
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
    tokens += r.source_tokens + r.target_tokens;
    const double seconds = seconds_since(start), left = seconds / double(r.updates) * double(steps - r.updates);
    say("step {:>5}/{}  loss {:7.4f}  gradient {:6.3f}  lr {:.2e}  {:>6.0f} tokens/s  {:.0f} s left\n", r.updates,
        steps, r.loss, r.gradient_norm, r.lr, r.tokens_per_second(), left);
  }
  result.train_seconds = seconds_since(start);
  result.tokens_per_second = double(tokens) / result.train_seconds;
}

Lines translate(Transformer& model, const Dictionary& dictionary, const std::vector<Ids>& sources) {
  Lines lines;
  // English number words take up to twice the parts of the German ones.
  for (const Ids& ids : translations(model, sources, {.beam = 1, .max_length_a = 2, .max_length_b = 10}))
    lines.push_back(remove_bpe(dictionary.decode(ids)));
  return lines;
}

// Into a table of its own for the output, so that the last normalizer goes too.
Folding fold_and_verify(Transformer& model, const Dictionary& dictionary, const EncodedPairs& test,
                        const DemoResult& result, const std::string& out) {
  const FoldOptions options{.tied = FoldOptions::Tied::untie};
  const Probe probe = random_probe(result.config);
  const FoldedTransformer folded = fold(model, options);
  Folding f{.certificate = certificate(model, folded, options, probe)};
  const auto start = std::chrono::steady_clock::now();
  const Lines hypotheses = translate(*folded.model, dictionary, test.source);
  f.decode_seconds = seconds_since(start);
  for (std::size_t i = 0; i < hypotheses.size(); ++i) f.same += hypotheses[i] == result.hypotheses[i];
  f.checks = check_model(
      model, [&options](Transformer& m) { return fold(m, options); }, probe);
  if (out.empty()) return f;
  const std::string vocabulary = out + "/model/vocabulary";
  write_model_directory(out + "/model", model);
  Vocabulary::numbers().save(vocabulary);
  write_model_directory(out + "/folded", *folded.model, vocabulary);
  add_digests(f.certificate, out + "/model", out + "/folded");
  write_file_atomically(out + "/folded/certificate.json", f.certificate.dump(2) + "\n");
  return f;
}

DemoResult run_demo(const DemoOptions& options) {
  const Dictionary dictionary = Dictionary::of_words(numbers::vocabulary());
  DemoResult result;
  result.config = model_config(options, dictionary.size());
  Transformer model(result.config, options.seed);
  result.parameters = model.parameter_count();
  translate(model, dictionary, {{kEos}});  // a normalizer that cannot decode is refused now, not after the training

  say("German to English number words: {} pairs to learn from, {} unseen ones to test\n", kTrainPairs, kTestPairs);
  say("Transformer with {}: {} + {} layers, width {}, {} parameters\n", options.norm, result.config.encoder_layers,
      result.config.decoder_layers, result.config.width, result.parameters);
  Batches batches(encoded(dictionary, numbers::sample(numbers::Split::train, kTrainPairs, options.seed)),
                  {.max_tokens = kMaxTokens, .seed = options.seed});
  Optimizer optimizer(Adam{.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9}, {{.parameters = model.parameters()}});
  const std::int64_t warmup = std::max<std::int64_t>(1, options.steps / 10);
  const Schedule schedule({.name = "cosine", .peak = 3e-3, .warmup = warmup, .total = options.steps + 1});
  Trainer trainer(model, optimizer, schedule, batches, {.label_smoothing = 0, .clip = 1, .seed = options.seed});
  train(trainer, options.steps, result);

  result.test = numbers::sample(numbers::Split::test, kTestPairs);
  const EncodedPairs test = encoded(dictionary, result.test);
  Batches test_batches(test, {.max_tokens = kMaxTokens, .multiple = 1, .shuffle = false});
  result.validation = validation_loss(model, test_batches);
  const auto start = std::chrono::steady_clock::now();
  result.hypotheses = translate(model, dictionary, test.source);
  result.decode_seconds = seconds_since(start);
  result.folding = fold_and_verify(model, dictionary, test, result, options.out);
  return result;
}

void print_folding(const Folding& f) {
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
  fmt::print("                {} of {} translations are the same, in {:.1f} s\n", f.same, kTestPairs, f.decode_seconds);
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
  fmt::print("\nexact match     {:.1f} % of {}\n", r.exact(), kTestPairs);
  fmt::print("perplexity      {:.4f} per part of a word\n", r.validation.perplexity);
  fmt::print("BLEU            {}\n", sacre_bleu(r.hypotheses, r.test.target).text);
  fmt::print("training        {} steps, {:.1f} s, {:.0f} tokens/s\n", options.steps, r.train_seconds,
             r.tokens_per_second);
  fmt::print("decoding        {:.1f} s\n", r.decode_seconds);
  fmt::print("peak memory     {:.0f} MiB\n\n", peak_mebibytes());
  print_folding(r.folding);
}

void print_json(const DemoResult& r, const DemoOptions& options) {
  const Bleu bleu = sacre_bleu(r.hypotheses, r.test.target);
  const nlohmann::ordered_json all = {{"norm", options.norm},
                                      {"steps", options.steps},
                                      {"seed", options.seed},
                                      {"parameters", r.parameters},
                                      {"exact_match", r.exact()},
                                      {"perplexity", r.validation.perplexity},
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
  fmt::print("{}\n", all.dump(2));
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

void add_demo_command(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "demo",
      "Train a Transformer on the embedded task, German to English number words, test it, fold its normalizers and "
      "verify it; about 3 minutes");
  const auto options = std::make_shared<DemoOptions>();
  command->add_option("--norm", options->norm, "Normalizer, one that `foldgrad norms` lists")
      ->check(CLI::Validator(check_norm, "NAME"))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Updates")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1000000)))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of initial weights and the order of the data")->capture_default_str();
  command->add_option("--out", options->out, "Directory for the model and the folded model with its certificate");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Exit codes: 0, 1 a check failed, 3 files, 5 when a number is no longer finite.");
  command->callback([options, &exit_code] {
    const DemoResult result = run_demo(*options);
    options->json ? print_json(result, *options) : print_text(result, *options);
    exit_code = result.folding.count(CheckResult::Outcome::failed) ? kExitCheckFailed : kExitOk;
  });
}

}  // namespace foldgrad
