#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/atomic_file.h"
#include "models/fold/model.h"
#include "models/gpt/gpt.h"
#include "models/onnx/graph.h"
#include "models/onnx/recording.h"

namespace foldgrad {
namespace {

using Keys = OnnxOperands::Keys;
using nlohmann::ordered_json;

const std::string kTexts = "batch_size", kLength = "sequence_length", kPast = "past_sequence_length",
                  kAll = kPast + " + " + kLength;

// Returns config.json, which describes the model to Hugging Face's Transformers and Optimum. The ids of special tokens
// are null, since no token begins or ends a text.
ordered_json runtime_config(const GptConfig& config) {
  return {{"model_type", "gpt2"},          {"vocab_size", config.vocabulary},
          {"n_positions", config.context}, {"n_embd", config.width},
          {"n_layer", config.layers},      {"n_head", config.heads},
          {"n_inner", config.ffn_width},   {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},       {"use_cache", true}};
}

// Returns the attention bias for queries that follow `past` keys. A query sees the keys up to its own for which `mask`,
// i64 [batch, keys], is not 0.
std::string causal_bias(OnnxGraph& g, const std::string& mask, const std::string& past) {
  const std::string keys = g.node("Gather", {g.node("Shape", {mask}), g.integer(1)});
  const std::string of_keys = g.node("Range", {g.integer(0), keys, g.integer(1)});
  const std::string of_queries = g.node("Range", {past, keys, g.integer(1)});
  const std::string earlier = g.node("LessOrEqual", {of_keys, g.node("Unsqueeze", {of_queries, g.integers({1})})});
  const std::string real = g.node("Unsqueeze", {g.node("Cast", {mask}, {kOnnxToBool}), g.integers({1, 2})});
  return onnx_bias_of(g, g.node("And", {earlier, real}));
}

void add_nodes(OnnxFile& g, Gpt& model) {
  const GptConfig& config = model.config();
  const auto cached = [&](const std::string& length) {
    return OnnxFile::NamedSizes{kTexts, config.heads, length, config.width / config.heads};
  };
  const std::string ids = g.input("input_ids", DType::i64, {kTexts, kLength}),
                    mask = g.input("attention_mask", DType::i64, {kTexts, kAll}),
                    places = g.input("position_ids", DType::i64, {kTexts, kLength});
  std::vector<Keys> before, now;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string k = g.input(fmt::format("past_key_values.{}.key", i), DType::f32, cached(kPast));
    before.push_back({k, g.input(fmt::format("past_key_values.{}.value", i), DType::f32, cached(kPast))});
  }
  g.at("embed");
  const std::string past = g.node("Gather", {g.node("Shape", {before[0].k}), g.integer(2)});
  const std::string bias = causal_bias(g, mask, past);
  const bool learned = config.has_learned_positions();
  const std::string positions = learned                         ? ""
                                : config.has_rotary_positions() ? places
                                                                : g.node("Add", {places, g.integer(2)});  // [POS-2]

  const Graph graph = graph_of(model);
  const auto attended = [&](const Keys& kv, bool) {
    const Keys& first = before[now.size()];
    const auto joined = [&](const std::string& earlier, const std::string& later) {
      return g.node("Concat", {earlier, later}, {{"axis", std::int64_t(2)}});
    };
    return now.emplace_back(Keys{joined(first.k, kv.k), joined(first.v, kv.v), bias});
  };
  OnnxRecording nodes(g, model, graph, OnnxSentences{positions, attended});
  nodes.give(graph.nodes[0].operands[1], ids);
  if (learned) nodes.give(graph.nodes[config.scaled_embedding ? 2 : 1].operands[1], places);
  g.output(nodes.add(), "logits", DType::f32, {kTexts, kLength, config.vocabulary});
  for (std::size_t i = 0; i < now.size(); ++i) {
    g.output(now[i].k, fmt::format("present.{}.key", i), DType::f32, cached(kAll));
    g.output(now[i].v, fmt::format("present.{}.value", i), DType::f32, cached(kAll));
  }
}

}  // namespace

std::vector<std::string> Gpt::write_onnx(const std::string& directory) {
  require_exportable(*this, "a sequence, but a token-by-token decoder has only the earlier tokens");
  FOLDGRAD_CHECK(!std::filesystem::exists(directory + "/model.safetensors"),
                 "onnx: {} contains a model, whose config.json would be overwritten; choose another directory",
                 directory);
  OnnxFile graph("model");
  graph.metadata("context", std::to_string(config_.context));
  add_nodes(graph, *this);
  make_directories(directory);  // comes after everything that can throw std::invalid_argument
  std::deque<AtomicFile> files;
  graph.write(files.emplace_back(directory + "/model.onnx"));
  files.emplace_back(directory + "/config.json").write(runtime_config(config_).dump(2) + "\n");
  files.emplace_back(directory + "/generation_config.json")
      .write(ordered_json{{"max_length", config_.context}}.dump(2) + "\n");
  for (AtomicFile& file : files) file.commit();
  return {"model.onnx"};
}

}  // namespace foldgrad
