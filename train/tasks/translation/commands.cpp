#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "engine/parallel/communicator.h"
#include "engine/parallel/elapsed.h"
#include "models/transformer/batch.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/system/digest.h"
#include "train/tasks/translation/data.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad {
namespace {

// The cast is unchecked, since a task's functions are called only for models of its families.
const TransformerConfig& config_of(const Model& model) { return static_cast<const Transformer&>(model).config(); }

ParallelText read_model_text(const Model& model, const ModelData& data) {
  FOLDGRAD_CHECK(data.source.empty() == data.reference.empty(),
                 "--source and --reference must both be given, or neither");
  if (!data.source.empty()) {
    const std::filesystem::path below = data.data_directory;  // an absolute name stays unchanged
    return read_parallel_text(below / data.source, below / data.reference);
  }
  FOLDGRAD_CHECK(!data.config.empty(), "{} does not belong to a run: --source and --reference must name text files",
                 data.model);
  const ExperimentConfig config = data.read_config(model);
  const auto& d = config.data.as<DataConfig>();
  const std::string& name = data.split == "train"   ? d.train
                            : data.split == "valid" ? d.valid
                            : data.split == "test"  ? d.test
                                                    : data.split;
  return read_text(d, data.data_root(config), name);
}

void require_room(const EncodedPairs& pairs, std::int64_t most) {
  for (const auto& [name, side] : {std::pair("source", &pairs.source), {"reference", &pairs.target}})
    for (std::size_t i = 0; i < side->size(); ++i)
      if (std::int64_t((*side)[i].size()) > most)
        throw FileError(
            fmt::format("{}:{}", name, i + 1),
            fmt::format("must have at most {} tokens, including the end token, got {}", most, (*side)[i].size()));
}

void require_finite(const ValidationLoss& loss, Transformer& model, Batches& batches) {
  if (std::isfinite(loss.loss)) {
    if (std::isfinite(loss.perplexity)) return;
    throw NonFiniteError(fmt::format("eval: the perplexity of a loss of {:.6g} is not finite", loss.loss));
  }
  for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
    const NamedTensors inputs = batches.at(i).sentences.named();
    if (i + 1 == batches.per_epoch() || !first_non_finite_operation(model, inputs, DType::f32).empty())
      refuse_non_finite("eval: the loss", model, inputs, DType::f32);
  }
}

Evaluation evaluation_of(const TranslationScores& s, std::size_t sentences, double seconds, const ModelData& data,
                         const DecodingOptions& decoding) {
  const std::string& of = data.source.empty() ? data.split : data.source;
  const std::string text = fmt::format(
      "data             {}\nsentences        {}\n"
      "loss             {:.4f} nats per target token\nperplexity       {:.4f}\n"
      "tokenized BLEU   {}\nsacreBLEU        {}\n                 {}\nchrF             {}\n                 {}\n"
      "exact match      {:.2f} %\ndecoding         {:.1f} s\n",
      of, sentences, s.loss.loss, s.loss.perplexity, s.tokenized.text, s.sacre.text, s.sacre.signature, s.chrf.text,
      s.chrf.signature, s.exact, seconds);
  return {text,
          {{"model", data.directory},
           {"data", of},
           {"sentences", sentences},
           {"target_tokens", s.loss.target_tokens},
           {"loss", s.loss.loss},
           {"perplexity", s.loss.perplexity},
           {"tokenized_bleu", s.tokenized.score},
           {"sacrebleu", s.sacre.score},
           {"sacrebleu_signature", s.sacre.signature},
           {"chrf", s.chrf.score},
           {"chrf_signature", s.chrf.signature},
           {"exact_match", s.exact},
           {"beam", decoding.beam},
           {"length_penalty", decoding.length_penalty},
           {"decode_seconds", seconds}}};
}

nlohmann::ordered_json vocabulary_json(const Model& model, const std::string& directory) {
  if (!file_exists(directory + "/vocabulary")) return nullptr;
  const Vocabulary v = load_vocabulary(directory, config_of(model));
  return {{"kind", v.kind()}, {"source", v.source_size()}, {"target", v.target_size()}};
}

// Returns the sentences of padded ids [B, T] with their mask.
Sentences without_padding(const Tensor& ids, const Tensor& mask) {
  std::vector<Ids> sentences(std::size_t(ids.shape()[0]));
  for (std::int64_t i = 0; i < ids.size(); ++i)
    if (mask.data<std::uint8_t>()[i]) sentences[std::size_t(i / ids.shape()[1])].push_back(ids.data<std::int64_t>()[i]);
  return Sentences::of(sentences);
}

// Returns x [tokens, C] as [B, T, C] on the CPU, with zeros where the mask [B, T] is 0.
Tensor with_padding(const Tensor& x, const Tensor& mask) {
  const Tensor rows = x.to(Device::cpu);
  const Tensor all = Tensor::zeros({mask.shape()[0], mask.shape()[1], x.shape()[1]}, x.dtype());
  const Tensor places = all.reshape({mask.size(), x.shape()[1]});
  for (std::int64_t place = 0, row = 0; place < mask.size(); ++place)
    if (mask.data<std::uint8_t>()[place]) {
      places.slice(place, place + 1).copy_from(rows.slice(row, row + 1));
      ++row;
    }
  return all;
}

// Returns the sentences of a file, and the masks with which results() puts rows in their positions. If a file has no
// mask, all ids except padding are tokens.
NamedTensors read_inputs(const Model& model, const std::string& path) {
  const TransformerConfig& config = config_of(model);
  NamedTensors tensors = read_safetensors(path).tensors;
  for (const auto& [name, tensor] : tensors)
    if (name != "source" && name != "source_mask" && name != "input" && name != "input_mask")
      throw FileError(path, fmt::format("must have no tensors other than source, input and their masks, got {}", name));
  for (const auto& [name, vocabulary] : {std::pair<std::string, std::int64_t>("source", config.source_vocabulary),
                                         {"input", config.target_vocabulary}}) {
    if (!tensors.count(name))
      throw FileError(path, fmt::format("must have a tensor {} of ids, i64 [sentences, tokens]", name));
    Tensor &ids = tensors[name], &mask = tensors[name + "_mask"];
    ids = checked_ids(path, name, ids, "[sentences, tokens]", INT64_MAX, vocabulary);
    if (!mask.defined()) {
      mask = Tensor::empty(ids.shape(), DType::u8);
      std::ranges::transform(ids.values<std::int64_t>(), mask.data<std::uint8_t>(),
                             [&](std::int64_t id) { return id != config.pad; });
    }
    if (mask.dtype() != DType::u8 || mask.shape() != ids.shape())
      throw FileError(path, fmt::format("{}_mask must be u8 {}, got {}", name, ids.shape(), describe(mask)));
    for (const std::uint8_t bit : mask.values<std::uint8_t>())
      if (bit > 1) throw FileError(path, fmt::format("{}_mask must contain only 0 and 1, got {}", name, bit));
  }
  const std::int64_t rows = tensors["source"].shape()[0], others = tensors["input"].shape()[0];
  if (rows != others) throw FileError(path, fmt::format("input must have {} rows, like source, got {}", rows, others));
  const Sentences source = without_padding(tensors["source"], tensors["source_mask"]),
                  input = without_padding(tensors["input"], tensors["input_mask"]);
  NamedTensors inputs = TranslationBatch{source, input, {}}.named();
  inputs.merge(tensors);  // adds the masks
  return inputs;
}

std::vector<CheckResult> translation_checks(Model& model, Model& folded, const NamedTensors& inputs) {
  const LogitsOf logits_of = [&](const NamedTensors& some) { return inference_logits(model, some, DType::f64); };
  return {check_translations(static_cast<Transformer&>(model), static_cast<Transformer&>(folded),
                             TranslationBatch::of(inputs).source),
          check_others("sentence", logits_of, inputs)};
}

NamedTensors results(Model& model, const NamedTensors& inputs, const ForwardPass& pass) {
  auto& transformer = static_cast<Transformer&>(model);
  const TranslationBatch batch = TranslationBatch::of(inputs);
  const Sentences source = transformer.placed("encoder", batch.source, pass),
                  input = transformer.placed("decoder", batch.input, pass);
  const Var memory = transformer.encode(source, pass);
  const Var hidden = transformer.decode(input, memory, source.rows, pass);
  const Var logits = transformer.logits(hidden, pass);
  return {{"logits", with_padding(logits.value(), inputs.at("input_mask"))},
          {"memory", with_padding(memory.value(), inputs.at("source_mask"))}};
}

Evaluation evaluate_translation(Model& any, const ModelData& data, const EvaluationOptions& o) {
  auto& model = static_cast<Transformer&>(any);
  const Vocabulary vocabulary = load_vocabulary(data.directory, model.config());
  ParallelText text = read_model_text(model, data);
  if (o.communicator)
    require_alike(*o.communicator, {{"source", fmt::format("{}", fmt::join(text.source, "\n"))},
                                    {"reference", fmt::format("{}", fmt::join(text.target, "\n"))}});
  const EncodedPairs pairs = encode(vocabulary, text);
  require_room(pairs, std::min(model.config().max_positions, o.max_tokens));
  Batches batches(pairs, {.max_tokens = o.max_tokens, .multiple = 1, .shuffle = false});
  const ValidationLoss loss = validation_loss(model, batches, o.communicator);
  const bool refuses = o.non_finite == NonFinite::refuse;
  if (refuses) require_finite(loss, model, batches);
  const Clock::time_point start = Clock::now();
  Lines hypotheses;
  const InferenceTransformer inference(model);
  for (const Hypothesis& best : best_hypotheses(inference, pairs.source, o.decoding, o.max_tokens, o.communicator)) {
    if (refuses && !std::isfinite(best.score))
      throw NonFiniteError(
          fmt::format("eval: source:{}: the logits of its translation are not finite", hypotheses.size() + 1));
    hypotheses.push_back(vocabulary.decode_target(best.ids));
  }
  const double seconds = seconds_since(start);
  const bool first = !o.communicator || o.communicator->rank() == 0;
  if (first && !o.hypotheses.empty())
    write_file_atomically(o.hypotheses, fmt::format("{}\n", fmt::join(hypotheses, "\n")));
  for (std::string& line : text.target) line = vocabulary.normalized(line);
  return evaluation_of(score_translations(loss, hypotheses, text.target), pairs.source.size(), seconds, data,
                       o.decoding);
}

TrainingInputs translation_inputs(const Model& model, const ModelData& data, std::int64_t max_tokens,
                                  std::uint64_t seed) {
  const Vocabulary vocabulary = load_vocabulary(data.directory, config_of(model));
  EncodedPairs pairs = encode(vocabulary, read_model_text(model, data));
  require_room(pairs, std::min(config_of(model).max_positions, max_tokens));
  const auto batches =
      std::make_shared<Batches>(std::move(pairs), BatchOptions{.max_tokens = max_tokens, .seed = seed});
  return {batches->per_epoch(), [batches] { return batches->next().sentences.named(); }};
}

ExampleSet examples(const Model& model, const ModelData& data) {
  const Vocabulary vocabulary = load_vocabulary(data.directory, config_of(model));
  const auto text = std::make_shared<ParallelText>(read_model_text(model, data));
  const auto pairs = std::make_shared<EncodedPairs>(encode(vocabulary, *text));
  const auto digest = [text](const std::vector<std::int64_t>& examples) {
    std::string lines;
    for (const std::int64_t i : examples)
      lines += text->source[std::size_t(i)] + "\n" + text->target[std::size_t(i)] + "\n";
    return sha256(lines);
  };
  return {
      .size = std::int64_t(text->source.size()),
      .inputs = [pairs](const auto& examples) { return batch_of(*pairs, examples).sentences.named(); },
      .digest = digest,
      .lengths =
          [](const std::string& layer) { return layer.starts_with("encoder.") ? "source_lengths" : "input_lengths"; }};
}

}  // namespace

Vocabulary load_vocabulary(const std::string& directory, const TransformerConfig& config) try {
  const std::string path = directory + "/vocabulary";
  if (!file_exists(path)) throw FileError(path, "is missing: this model reads and writes ids, not text");
  Vocabulary vocabulary = Vocabulary::load(path);
  if (vocabulary.source_size() != config.source_vocabulary || vocabulary.target_size() != config.target_vocabulary)
    throw FileError(path, fmt::format("must have {} and {} entries according to config.json, got {} and {}",
                                      config.source_vocabulary, config.target_vocabulary, vocabulary.source_size(),
                                      vocabulary.target_size()));
  return vocabulary;
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

const TaskKind kTranslation{.keys = [] { return Section::of(DataConfig()); },
                            .make = make_translation,
                            .checks = translation_checks,
                            .read_inputs = read_inputs,
                            .results = results,
                            .evaluate = evaluate_translation,
                            .examples = examples,
                            .training_inputs = translation_inputs,
                            .vocabulary = vocabulary_json};

}  // namespace foldgrad
