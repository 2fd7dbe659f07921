#include "train/tasks/language_commands.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/check.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/fold/difference.h"
#include "models/gpt/decoder.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/model_checks.h"
#include "train/system/digest.h"
#include "train/tasks/language.h"

namespace foldgrad {
namespace {

// The row is asked about models of its own family alone.
const GptConfig& gpt_config_of(const Model& model) { return static_cast<const Gpt&>(model).config(); }

std::string read_evaluated_text(const Model& model, const ModelData& data) {
  FOLDGRAD_CHECK(data.reference.empty(), "--reference is of models that translate, got one of model.family \"{}\"",
                 model.family());
  if (!data.source.empty())
    return read_whole_text(std::filesystem::path(data.data_directory) / data.source);  // an absolute name stays
  FOLDGRAD_CHECK(!data.config.empty(), "{} belongs to no run: --source must name text", data.model);
  const ExperimentConfig config = data.read_config(model);
  return read_language_text(config.language, data.data_root(config), data.split);
}

NamedTensors read_ids(const Model& model, const std::string& path) {
  const GptConfig& config = gpt_config_of(model);
  const NamedTensors tensors = read_safetensors(path).tensors;
  const auto found = tensors.find("ids");
  if (found == tensors.end() || tensors.size() > 1)
    throw FileError(path, "must hold a tensor ids alone, i64 [sequences, tokens]");
  const Tensor& t = found->second;
  const bool whole = t.dtype() == DType::i64 || t.dtype() == DType::i32;
  if (!whole || t.shape().rank() != 2 || t.size() == 0 || t.shape()[1] > config.context)
    throw FileError(path, fmt::format("ids must be i64 or i32 [sequences, tokens] of at most {} tokens, got {}",
                                      config.context, describe(t)));
  const Tensor ids = t.to(DType::i64);
  for (std::int64_t i = 0; i < ids.size(); ++i)
    if (const std::int64_t id = ids.data<std::int64_t>()[i]; id < 0 || id >= config.vocabulary)
      throw FileError(path, fmt::format("ids[{}, {}] must be an id in [0, {}), got {}", i / t.shape()[1],
                                        i % t.shape()[1], config.vocabulary, id));
  return {{"ids", ids}};
}

Evaluation evaluate_language(Model& model, const ModelData& data, const EvaluationOptions& options) {
  FOLDGRAD_CHECK(options.hypotheses.empty(), "--hypotheses is of models that translate, got one of model.family \"{}\"",
                 model.family());
  const TextVocabulary vocabulary = load_text_vocabulary(data.directory, gpt_config_of(model));
  const std::int64_t batch = std::max<std::int64_t>(1, options.max_tokens / gpt_config_of(model).context);
  const LanguageScores s = score_text(model, vocabulary, read_evaluated_text(model, data), batch);
  if (options.non_finite == NonFinite::refuse && !std::isfinite(s.perplexity))
    throw NonFiniteError(fmt::format("eval: the perplexity of a loss of {:.6g} is not finite", s.loss));
  const std::string& of = data.source.empty() ? data.split : data.source;
  return {fmt::format("data             {}\ncharacters       {}\ntokens           {}\n"
                      "loss             {:.4f} nats per token\nperplexity       {:.4f}\nbits             {:.4f} per "
                      "character\n",
                      of, s.characters, s.tokens, s.loss, s.perplexity, s.bits_per_character),
          {{"model", data.directory},
           {"data", of},
           {"characters", s.characters},
           {"tokens", s.tokens},
           {"loss", s.loss},
           {"perplexity", s.perplexity},
           {"bits_per_character", s.bits_per_character}}};
}

ExampleSet window_examples(const Model& model, const ModelData& data) {
  const std::int64_t T = gpt_config_of(model).context;
  const auto text = std::make_shared<const Ids>(
      load_text_vocabulary(data.directory, gpt_config_of(model)).encode(read_evaluated_text(model, data)));
  const auto windows = [text, T](const std::vector<std::int64_t>& examples) { return windows_of(*text, T, examples); };
  return {.size = (std::int64_t(text->size()) - 1) / T,
          .inputs = [windows](const auto& examples) { return windows(examples).named(); },
          .digest =
              [windows](const auto& examples) {
                const Tensor ids = windows(examples).ids;
                return sha256({static_cast<const char*>(ids.raw()), ids.bytes()});
              }};
}

CheckResult check_causality(Model& model, const Tensor& ids, const Tensor& logits) {
  constexpr const char* kName = "later tokens change nothing";
  const std::int64_t B = ids.shape()[0], T = ids.shape()[1], V = logits.shape()[2];
  if (T < 2) return check_skipped(kName, "the context has one token alone");
  const Tensor changed = ids.clone(), got = logits.clone();
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = T / 2; t < T; ++t) {
      std::int64_t& id = changed.data<std::int64_t>()[b * T + t];
      id = (id + 1) % gpt_config_of(model).vocabulary;
    }
  const Tensor other = inference_logits(model, {{"ids", changed}}, DType::f64);
  for (std::int64_t b = 0; b < B; ++b)
    std::copy_n(other.data<double>() + b * T * V, T / 2 * V, got.data<double>() + b * T * V);
  return check_same_logits(kName, got, logits, kSameInF64);
}

CheckResult check_other_sequences(Model& model, const Tensor& ids, const Tensor& logits) {
  const Tensor got = logits.clone();
  for (std::int64_t b = 0; b < ids.shape()[0]; ++b)
    got.slice(b, b + 1).copy_from(inference_logits(model, {{"ids", ids.slice(b, b + 1)}}, DType::f64));
  return check_same_logits("other sequences of the batch change nothing", got, logits, kSameInF64);
}

// Begun with one token, each step gives what the whole sequence has at its place.
CheckResult check_steps(const char* name, Gpt& model, const Tensor& ids, const Tensor& logits) {
  const std::int64_t B = ids.shape()[0], T = ids.shape()[1], V = logits.shape()[2];
  const Tensor got = logits.clone();
  GptDecoder decoder(model, DType::f64);
  for (std::int64_t t = 0; t < T; ++t) {
    TokenIds tokens;
    for (std::int64_t b = 0; b < B; ++b) tokens.push_back(ids.data<std::int64_t>()[b * T + t]);
    std::vector<TokenIds> texts;
    for (const std::int64_t token : tokens) texts.push_back({token});
    const Tensor of_step = (t == 0 ? decoder.begin(texts) : decoder.step(tokens)).to(Device::cpu);
    for (std::int64_t b = 0; b < B; ++b)
      std::copy_n(of_step.data<double>() + b * V, V, got.data<double>() + (b * T + t) * V);
  }
  return check_same_logits(name, got, logits, kSameInF64);
}

std::vector<CheckResult> check_language(Model& model, Model& folded, const NamedTensors& inputs) {
  const Tensor& ids = inputs.at("ids");
  const Tensor logits = inference_logits(model, inputs, DType::f64);
  constexpr const char *kSteps = "step by step, cached, the logits are the same",
                       *kFoldedSteps = "and of the folded model";
  std::vector<CheckResult> all{check_other_sequences(model, ids, logits)};
  for (const Normalizer* norm : model.normalizers())
    if (norm->mixes_tokens()) {
      for (const char* name : {"later tokens change nothing", kSteps, kFoldedSteps})
        all.push_back(check_skipped(name, "statistics over a sequence see its later tokens"));
      return all;
    }
  all.push_back(check_causality(model, ids, logits));
  all.push_back(check_steps(kSteps, static_cast<Gpt&>(model), ids, logits));
  all.push_back(check_steps(kFoldedSteps, static_cast<Gpt&>(folded), ids, logits));
  return all;
}

nlohmann::ordered_json text_vocabulary_json(const Model& model, const std::string& directory) {
  if (!std::filesystem::exists(directory + "/vocabulary")) return nullptr;
  const TextVocabulary v = load_text_vocabulary(directory, gpt_config_of(model));
  return {{"kind", v.kind()}, {"size", v.size()}};
}

}  // namespace

TextVocabulary load_text_vocabulary(const std::string& directory, const GptConfig& config) try {
  const std::string path = directory + "/vocabulary";
  if (!std::filesystem::exists(path)) throw FileError(path, "is missing: this model takes and gives ids, no text");
  TextVocabulary vocabulary = TextVocabulary::load(path);
  if (vocabulary.size() != config.vocabulary)
    throw FileError(path,
                    fmt::format("must have {} entries by config.json, got {}", config.vocabulary, vocabulary.size()));
  return vocabulary;
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

const TaskKind kLanguage{
    .name = "language",
    .check = [](const ExperimentConfig&) {},
    .make = make_language,
    .checks = check_language,
    .read_inputs = read_ids,
    .results = [](Model& model, const NamedTensors& inputs, const ForwardPass& pass) -> NamedTensors {
      return {{"logits", model.placed(model.forward(inputs, pass).value(), inputs)}};
    },
    .evaluate = evaluate_language,
    .examples = window_examples,
    .vocabulary = text_vocabulary_json};

}  // namespace foldgrad
