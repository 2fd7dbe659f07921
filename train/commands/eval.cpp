// foldgrad eval: what a model is worth on text with references, or on images.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/files/atomic_file.h"
#include "train/commands/commands.h"
#include "train/commands/load_transformer.h"
#include "train/commands/model_config.h"
#include "train/commands/model_text.h"
#include "train/data/data_root.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/tasks/families.h"
#include "train/tasks/translation_scores.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

struct EvalOptions {
  std::string model, hypotheses, config, device = "auto";
  ModelTextOptions text;
  DecodingOptions decoding;
  std::int64_t max_tokens = 4096;
  NonFinite non_finite = NonFinite::refuse;
  bool json = false;
};

struct Evaluation {
  std::size_t sentences = 0;
  TranslationScores scores;
  double seconds = 0;
};

void require_finite(const ValidationLoss& loss, Transformer& model, Batches& batches) {
  if (std::isfinite(loss.loss)) {
    if (std::isfinite(loss.perplexity)) return;
    throw NonFiniteError(fmt::format("eval: the perplexity of a loss of {:.6g} is not finite", loss.loss));
  }
  batches.seek({});
  for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
    const NamedTensors inputs = batches.next().sentences.named();
    if (i + 1 == batches.per_epoch() || !first_non_finite_operation(model, inputs, DType::f32).empty())
      refuse_non_finite("eval: the loss", model, inputs, DType::f32);
  }
}

Evaluation evaluate(const EvalOptions& o, std::unique_ptr<Model> loaded) {
  const auto model = require_transformer(std::move(loaded), o.model);
  const Vocabulary vocabulary = load_vocabulary(o.model, model->config());
  const ParallelText text = read_model_text(o.text, o.model, vocabulary);
  const EncodedPairs pairs = encode_model_text(text, vocabulary, std::min(model->config().max_positions, o.max_tokens));
  Batches batches(pairs, {.max_tokens = o.max_tokens, .multiple = 1, .shuffle = false});
  const ValidationLoss loss = validation_loss(*model, batches);
  if (o.non_finite == NonFinite::refuse) require_finite(loss, *model, batches);
  const auto start = std::chrono::steady_clock::now();
  Lines hypotheses;
  const auto inference = InferenceTransformer::make(*model);
  for (const Hypothesis& best : best_hypotheses(*inference, pairs.source, o.decoding, o.max_tokens)) {
    if (o.non_finite == NonFinite::refuse && !std::isfinite(best.score))
      throw NonFiniteError(
          fmt::format("eval: source:{}: the logits of its translation are not finite", hypotheses.size() + 1));
    hypotheses.push_back(vocabulary.decode_target(best.ids));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!o.hypotheses.empty()) write_file_atomically(o.hypotheses, fmt::format("{}\n", fmt::join(hypotheses, "\n")));
  return {pairs.source.size(), score_translations(loss, hypotheses, text.target), seconds};
}

ordered_json json_of(const Evaluation& e, const EvalOptions& o) {
  const TranslationScores& s = e.scores;
  return {{"model", find_model_directory(o.model)},
          {"sentences", e.sentences},
          {"target_tokens", s.loss.target_tokens},
          {"loss", s.loss.loss},
          {"perplexity", s.loss.perplexity},
          {"tokenized_bleu", s.tokenized.score},
          {"sacrebleu", s.sacre.score},
          {"sacrebleu_signature", s.sacre.signature},
          {"chrf", s.chrf.score},
          {"chrf_signature", s.chrf.signature},
          {"exact_match", s.exact},
          {"beam", o.decoding.beam},
          {"length_penalty", o.decoding.length_penalty},
          {"decode_seconds", e.seconds}};
}

void print_text(const Evaluation& e) {
  const TranslationScores& s = e.scores;
  fmt::print("sentences        {}\n", e.sentences);
  fmt::print("loss             {:.4f} nats per target token\n", s.loss.loss);
  fmt::print("perplexity       {:.4f}\n", s.loss.perplexity);
  fmt::print("tokenized BLEU   {}\n", s.tokenized.text);
  fmt::print("sacreBLEU        {}\n                 {}\n", s.sacre.text, s.sacre.signature);
  fmt::print("chrF             {}\n                 {}\n", s.chrf.text, s.chrf.signature);
  fmt::print("exact match      {:.2f} %\n", s.exact);
  fmt::print("decoding         {:.1f} s\n", e.seconds);
}

// Evaluates a model of a family that does so itself.
int eval_split(const EvalOptions& o, Model& model) {
  FOLDGRAD_CHECK(
      o.text.source.empty() && o.text.reference.empty() && o.hypotheses.empty(),
      "eval: --source, --reference and --hypotheses are of models that translate, got one of model.family \"{}\"",
      model.family());
  const ExperimentConfig config = read_model_config(model, o.model, o.config);
  const std::string directory = data_directory(config.data_directory(), o.text.data_directory);
  const Validation v = family_of(model).task->evaluate(model, config, directory, o.text.split);
  if (o.non_finite == NonFinite::refuse && !std::isfinite(v.loss))
    throw NonFiniteError(fmt::format("eval: the loss on the split {} is not finite", o.text.split));
  if (!o.json) {
    fmt::print("{}: {}\n{}", o.text.split, v.text, v.samples);
    return kExitOk;
  }
  ordered_json all{{"model", find_model_directory(o.model)}, {"split", o.text.split}};
  for (const auto& [name, value] : v.scores) all[name] = value;
  for (const auto& [name, text] : v.notes) all[name] = text;
  all["text"] = v.text;
  all["samples"] = v.samples;
  print_json(all);
  return kExitOk;
}

int eval(const EvalOptions& o) {
  auto model = load_model(o.model, DType::f32, require_device(o.device), o.non_finite);
  if (family_of(*model).task->evaluate) return eval_split(o, *model);
  const Evaluation evaluation = evaluate(o, std::move(model));
  o.json ? print_json(json_of(evaluation, o)) : print_text(evaluation);
  return kExitOk;
}

}  // namespace

Action add_eval(CLI::App& command) {
  const auto o = std::make_shared<EvalOptions>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run; one that translates has a vocabulary")
      ->required();
  add_model_text_options(command, o->text, "test");
  add_model_config_option(command, o->config);
  add_decoding_options(command, o->decoding, o->max_tokens);
  command.add_option("--hypotheses", o->hypotheses, "Write the translations to this file");
  add_device_option(command, o->device);
  command.add_flag("--json", o->json, "Print JSON");
  add_non_finite_option(command, o->non_finite);
  command.footer(
      "Exit codes: 0, 2 usage, 3 text or images, 4 the model cannot be loaded, 5 a number is not finite, 6 device.");
  return [o] { return eval(*o); };
}

}  // namespace foldgrad
