#include "train/tasks/language/language.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "engine/check.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "engine/parallel/in_turns.h"
#include "models/gpt/decoder.h"
#include "models/gpt/sampling.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/checks/model_checks.h"
#include "train/system/unicode.h"
#include "train/tasks/language/data.h"
#include "train/tasks/language/windows.h"

namespace foldgrad {

Validation LanguageScores::validation() const {
  return {.loss = loss,
          .deciding = -bits_per_character,
          .scores = {{"loss", loss}, {"perplexity", perplexity}, {"bits_per_character", bits_per_character}},
          .text = fmt::format("loss {:.4f}, perplexity {:.3f}, {:.4f} bits per character", loss, perplexity,
                              bits_per_character),
          .short_text =
              fmt::format("loss {:.4f}  ppl {:.2f}  {:.3f} bits/character", loss, perplexity, bits_per_character)};
}

LanguageScores score_text(Model& model, const TextVocabulary& vocabulary, const std::string& text, std::int64_t batch,
                          Communicator* communicator) {
  const Ids ids = vocabulary.encode(text);
  const std::vector<WindowBatch> batches = windows_in_order(ids, static_cast<Gpt&>(model).config().context, batch);
  const auto of_batch = [&](std::int64_t i) -> std::vector<double> {
    Tape tape(/*recording=*/false);
    const ForwardPass pass{.tape = tape, .dtype = DType::f32};
    return {model.loss(batches[std::size_t(i)].named(), pass, /*label_smoothing=*/0).value().item()};
  };
  LanguageScores scores;
  double sum = 0;
  for (const auto& loss : in_turns<double>(communicator, std::int64_t(batches.size()), of_batch)) sum += loss[0];
  for (const WindowBatch& windows : batches) scores.tokens += windows.target.size();
  const auto characters = [](const std::string& of) { return std::int64_t(decode_utf8(of).size()); };
  scores.characters = characters(text) - characters(vocabulary.decode({ids[0]}));
  scores.loss = sum / double(scores.tokens);                                          // [LM-1]
  scores.perplexity = std::exp(scores.loss);                                          // [LM-2]
  scores.bits_per_character = sum / (std::numbers::ln2 * double(scores.characters));  // [LM-3]
  return scores;
}

std::string written_samples(Gpt& model, const TextVocabulary& vocabulary, const Ids& text) {
  constexpr std::int64_t kSamples = 3, kTokens = 300;
  if (std::ranges::any_of(model.normalizers(), &Normalizer::mixes_tokens)) return "";
  const auto tokens = std::int64_t(text.size());
  const std::int64_t given =
      std::clamp<std::int64_t>(model.config().context / 4, 1, std::min<std::int64_t>(tokens, 64));
  std::vector<Ids> passages, written(kSamples);
  for (std::int64_t s = 0; s < kSamples; ++s) {
    const auto begin = text.begin() + (tokens - given) * s / kSamples;
    passages.emplace_back(begin, begin + given);
  }
  GptDecoder decoder(model, model.dtype());
  (void)generate(decoder, passages, kTokens, {},
                 [&](std::size_t sample, std::int64_t token) { written[sample].push_back(token); });
  std::string all;
  for (std::size_t s = 0; s < written.size(); ++s)
    all += fmt::format("--- after \"{}\":\n{}\n\n", vocabulary.decode(passages[s]), vocabulary.decode(written[s]));
  return all;
}

namespace {

class Language final : public Task {
 public:
  // Throws std::invalid_argument for data that `Windows` (windows.h) rejects.
  Language(std::unique_ptr<Model> model, LanguageData data, const ExperimentConfig& config)
      : Task(*model, {.deciding_score = "bits_per_character",
                      .smaller_is_better = true,
                      .unit_of_work = "tokens",
                      .data_digests = data.digests}),
        model_(std::move(model)),
        data_(std::move(data)),
        batch_(config.data.as<LanguageConfig>().batch),
        valid_(data_.vocabulary.encode(data_.valid)),
        batches_(data_.vocabulary.encode(data_.train), {.length = gpt().config().context,
                                                        .size = batch_,
                                                        .seed = std::uint64_t(config.train.seed),
                                                        .prefetch = true}) {
    if (valid_.size() < 2)
      throw ConfigError(fmt::format("data.valid = \"{}\": a validation text must have at least 2 tokens, got {}",
                                    config.data.as<LanguageConfig>().valid, valid_.size()));
  }

  Examples next() override {
    const WindowBatch batch = batches_.next();
    return {batch.named(), batch.target.size(), batch.target.size()};
  }
  Windows& batches() override { return batches_; }
  Validation validate(Communicator* communicator) override {
    Validation v = score_text(*model_, data_.vocabulary, data_.valid, batch_, communicator).validation();
    v.samples = written_samples(gpt(), data_.vocabulary, valid_);
    return v;
  }
  void write_companions(const std::string& directory) const override {
    data_.vocabulary.save(directory + "/vocabulary");
  }

 private:
  Gpt& gpt() { return static_cast<Gpt&>(*model_); }

  std::unique_ptr<Model> model_;
  LanguageData data_;
  const std::int64_t batch_;  // windows
  Ids valid_;
  Windows batches_;
};

// The cast is unchecked, since a task's functions are called only for models of its families.
const GptConfig& gpt_config_of(const Model& model) { return static_cast<const Gpt&>(model).config(); }

struct EvaluatedText {
  std::string name, text;
  bool stands_in = false;  // true if `text` is the validation text, since the run has no test text
};

EvaluatedText read_evaluated_text(const Model& model, const ModelData& data) {
  FOLDGRAD_CHECK(data.reference.empty(), "--reference is only for translation models, got a model of family \"{}\"",
                 model.family());
  if (!data.source.empty())
    return {data.source, read_whole_text(std::filesystem::path(data.data_directory) / data.source)};
  FOLDGRAD_CHECK(!data.config.empty(), "{} does not belong to a run: --source must name a text file", data.model);
  const ExperimentConfig config = data.read_config(model);
  const auto& keys = config.data.as<LanguageConfig>();
  const bool stands_in = data.split == "test" && keys.test.empty();
  return {stands_in ? "valid" : data.split, read_language_text(keys, data.data_root(config), data.split), stands_in};
}

NamedTensors read_ids(const Model& model, const std::string& path) {
  const GptConfig& config = gpt_config_of(model);
  const NamedTensors tensors = read_safetensors(path).tensors;
  const auto found = tensors.find("ids");
  if (found == tensors.end() || tensors.size() > 1)
    throw FileError(path, "must have exactly one tensor, ids, i64 [sequences, tokens]");
  const std::string form = fmt::format("[sequences, tokens] of at most {} tokens", config.context);
  return {{"ids", checked_ids(path, "ids", found->second, form, config.context, config.vocabulary)}};
}

NamedTensors logits_of_sequences(Model& model, const NamedTensors& inputs, const ForwardPass& pass) {
  const Shape& ids = inputs.at("ids").shape();
  return {{"logits", model.forward(inputs, pass).value().reshape({ids[0], ids[1], -1})}};
}

Evaluation evaluate_language(Model& model, const ModelData& data, const EvaluationOptions& options) {
  FOLDGRAD_CHECK(options.hypotheses.empty(),
                 "--hypotheses is only for translation models, got a model of family \"{}\"", model.family());
  const TextVocabulary vocabulary = load_text_vocabulary(data.directory, gpt_config_of(model));
  const std::int64_t batch = std::max<std::int64_t>(1, options.max_tokens / gpt_config_of(model).context);
  const auto [of, text, stands_in] = read_evaluated_text(model, data);
  if (options.communicator) require_alike(*options.communicator, {{"text", text}});
  const LanguageScores s = score_text(model, vocabulary, text, batch, options.communicator);
  if (options.non_finite == NonFinite::refuse && !std::isfinite(s.perplexity))
    throw NonFiniteError(fmt::format("eval: the perplexity of a loss of {:.6g} is not finite", s.loss));
  return {fmt::format("data             {}{}\ncharacters       {}\ntokens           {}\n"
                      "loss             {:.4f} nats per token\nperplexity       {:.4f}\nbits             {:.4f} per "
                      "character\n",
                      of, stands_in ? " (data.test is empty)" : "", s.characters, s.tokens, s.loss, s.perplexity,
                      s.bits_per_character),
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
      load_text_vocabulary(data.directory, gpt_config_of(model)).encode(read_evaluated_text(model, data).text));
  return {.size = (std::int64_t(text->size()) - 1) / T,
          .inputs = [text, T](const auto& examples) { return windows_of(*text, T, examples).named(); }};
}

CheckResult check_causality(const char* name, Model& model, const Tensor& ids, const Tensor& logits) {
  const std::int64_t B = ids.shape()[0], T = ids.shape()[1], V = logits.shape()[1];
  if (T < 2) return check_skipped(name, "the context has only one token");
  const Tensor changed = ids.clone(), got = logits.clone();
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = T / 2; t < T; ++t) {
      std::int64_t& id = changed.data<std::int64_t>()[b * T + t];
      id = (id + 1) % gpt_config_of(model).vocabulary;
    }
  const Tensor other = inference_logits(model, {{"ids", changed}}, DType::f64);
  for (std::int64_t b = 0; b < B; ++b)
    std::copy_n(other.data<double>() + b * T * V, T / 2 * V, got.data<double>() + b * T * V);
  return check_same_logits(name, got, logits, kSameInF64);
}

// Checks that decoding token by token gives the same logits as one pass over the whole sequence.
CheckResult check_steps(const char* name, Gpt& model, const Tensor& ids, const Tensor& logits) {
  const std::int64_t B = ids.shape()[0], T = ids.shape()[1], V = logits.shape()[1];
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
  constexpr const char *kCausal = "later tokens do not change the result",
                       *kSteps = "cached token-by-token decoding gives the same logits",
                       *kFoldedSteps = "cached token-by-token decoding of the folded model gives the same logits";
  const LogitsOf logits_of = [&](const NamedTensors& some) { return inference_logits(model, some, DType::f64); };
  std::vector<CheckResult> all{check_others("sequence", logits_of, inputs)};
  if (std::ranges::any_of(model.normalizers(), &Normalizer::mixes_tokens)) {
    for (const char* name : {kCausal, kSteps, kFoldedSteps})
      all.push_back(check_skipped(name, "statistics over a sequence depend on later tokens"));
    return all;
  }
  all.push_back(check_causality(kCausal, model, ids, logits));
  all.push_back(check_steps(kSteps, static_cast<Gpt&>(model), ids, logits));
  all.push_back(check_steps(kFoldedSteps, static_cast<Gpt&>(folded), ids, logits));
  return all;
}

nlohmann::ordered_json text_vocabulary_json(const Model& model, const std::string& directory) {
  if (!file_exists(directory + "/vocabulary")) return nullptr;
  const TextVocabulary v = load_text_vocabulary(directory, gpt_config_of(model));
  return {{"kind", v.kind()}, {"size", v.size()}};
}

std::unique_ptr<Task> make_language(ExperimentConfig config, const std::string& data_directory,
                                    const std::string& earlier, Device device) {
  const auto& keys = config.data.as<LanguageConfig>();
  auto& model = config.model.as<GptConfig>();
  // A model keeps its vocabulary, even if the training text has changed.
  std::optional<TextVocabulary> vocabulary;
  if (!earlier.empty()) vocabulary = TextVocabulary::load(earlier + "/vocabulary");
  LanguageData data = read_language_data(keys, data_directory, std::move(vocabulary));
  model.vocabulary = data.vocabulary.size();
  std::unique_ptr<Model> made = new_model(config, device);
  try {
    return std::make_unique<Language>(std::move(made), std::move(data), config);
  } catch (const std::invalid_argument& e) {
    throw ConfigError(fmt::format("{}: with train.batch = {} and model.context = {}: {}",
                                  (std::filesystem::path(data_directory) / keys.train).string(), keys.batch,
                                  model.context, e.what()));
  }
}

}  // namespace

TextVocabulary load_text_vocabulary(const std::string& directory, const GptConfig& config) try {
  const std::string path = directory + "/vocabulary";
  if (!file_exists(path)) throw FileError(path, "is missing: this model reads and writes ids, not text");
  TextVocabulary vocabulary = TextVocabulary::load(path);
  if (vocabulary.size() != config.vocabulary)
    throw FileError(path, fmt::format("must have {} entries according to config.json, got {}", config.vocabulary,
                                      vocabulary.size()));
  return vocabulary;
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

const TaskKind kLanguage{.keys = [] { return Section::of(LanguageConfig()); },
                         .make = make_language,
                         .checks = check_language,
                         .read_inputs = read_ids,
                         .results = logits_of_sequences,
                         .evaluate = evaluate_language,
                         .examples = window_examples,
                         .vocabulary = text_vocabulary_json};

}  // namespace foldgrad
