#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "models/onnx/graph.h"
#include "models/onnx/recording.h"
#include "models/transformer/transformer.h"

namespace foldgrad {
namespace {

using Keys = OnnxOperands::Keys;
using nlohmann::ordered_json;

const std::string kBatch = "batch_size", kSourceLength = "encoder_sequence_length",
                  kTargetLength = "decoder_sequence_length", kPastLength = "past_decoder_sequence_length";

// Returns the attention bias [batch, 1, 1, length] for a mask of keys, i64 [batch, length].
std::string bias_of_keys(OnnxGraph& g, const std::string& mask) {
  return onnx_bias_of(g, g.node("Unsqueeze", {g.node("Cast", {mask}, {kOnnxToBool}), g.integers({1, 2})}));
}
// Returns the positions of the tokens where `mask`, i64 [batch, length], is 1.
std::string positions_of(OnnxGraph& g, const std::string& mask) {
  const std::string count = g.node("Mul", {g.node("CumSum", {mask, g.integer(1)}), mask});
  return g.node("Add", {count, g.integer(1)});  // [POS-2]
}
// Returns bool [queries, keys], true where the key does not come after the query.
std::string not_later(OnnxGraph& g, const std::string& ids) {
  const std::string length = g.node("Gather", {g.node("Shape", {ids}), g.integer(1)});
  const std::string places = g.node("Range", {g.integer(0), length, g.integer(1)});
  return g.node("LessOrEqual", {places, g.node("Unsqueeze", {places, g.integers({1})})});
}
std::string source_mask(OnnxFile& g) { return g.input("encoder_attention_mask", DType::i64, {kBatch, kSourceLength}); }

class TransformerFile {
 public:
  TransformerFile(Transformer& model, OnnxFile& g) : model_(model), config_(model.config()), g_(g) {
    g.metadata("pad", std::to_string(config_.pad));
    g.metadata("eos", std::to_string(kEos));
    g.metadata("max_positions", std::to_string(config_.max_positions));
    for (const Normalizer* norm : model.normalizers()) sites_.push_back(norm->site());
  }

  void encoder() {
    const std::string ids = g_.input("input_ids", DType::i64, {kBatch, kSourceLength}),
                      mask = g_.input("attention_mask", DType::i64, {kBatch, kSourceLength});
    const Graph graph = recorded([&](const Sentences& source, const Sentences&, const ForwardPass& pass) {
      return model_.encode(source, pass);
    });
    g_.at("encoder.embed_tokens");
    const std::string bias = bias_of_keys(g_, mask);
    const auto attended = [&](const Keys& own, bool) { return Keys{own.k, own.v, bias}; };
    OnnxRecording nodes(g_, model_, graph, OnnxSentences{positions_of(g_, mask), attended});
    nodes.give(graph.nodes[0].operands[1], ids);
    g_.output(nodes.add(), "last_hidden_state", DType::f32, {kBatch, kSourceLength, config_.width});
  }

  // Adds a decoder for a whole prefix. Ids equal to config.pad are padding, which may be on either side.
  void decoder() {
    const std::string ids = g_.input("input_ids", DType::i64, {kBatch, kTargetLength}), mask = source_mask(g_),
                      memory = g_.input("encoder_hidden_states", DType::f32, {kBatch, kSourceLength, config_.width});
    g_.at("decoder.embed_tokens");
    const std::string real = g_.node("Not", {g_.node("Equal", {ids, g_.integer(config_.pad)})});
    const std::string seen = g_.node("And", {not_later(g_, ids), g_.node("Unsqueeze", {real, g_.integers({1, 2})})});
    const std::string own_bias = onnx_bias_of(g_, seen), memory_bias = bias_of_keys(g_, mask);
    const std::string factor = g_.node("Unsqueeze", {g_.node("Cast", {mask}, {kOnnxToF32}), g_.integers({1, 3})});
    std::vector<Keys> own, of_memory;
    const auto attended = [&](const Keys& kv, bool causal) {
      if (causal) return own.emplace_back(Keys{kv.k, kv.v, own_bias});
      // A source without tokens must give 0. Without this factor, softmax would give the mean over the padding.
      return of_memory.emplace_back(Keys{kv.k, g_.node("Mul", {kv.v, factor}), memory_bias});
    };
    const std::string positions = positions_of(g_, g_.node("Cast", {real}, {kOnnxToI64}));
    add_decoder(ids, memory, kTargetLength, positions, attended);
    present(of_memory, "encoder", kSourceLength);
    present(own, "decoder", kTargetLength);
  }

  // Adds a decoder for one more token in every row.
  void decoder_with_past() {
    const std::string ids = g_.input("input_ids", DType::i64, {kBatch, 1}), mask = source_mask(g_);
    std::vector<Keys> before, of_memory, own;
    for (std::size_t i = 0; i < model_.decoder_layers().size(); ++i) {
      before.push_back(past(i, "decoder", kPastLength));
      of_memory.push_back(past(i, "encoder", kSourceLength));
    }
    g_.at("decoder.embed_tokens");
    const std::string length = g_.node("Gather", {g_.node("Shape", {before[0].k}), g_.integer(2)});
    const std::string position = g_.node("Add", {length, g_.integer(2)});  // the first token has position 2 [POS-2]
    const std::string memory_bias = bias_of_keys(g_, mask);
    const auto joined = [&](const std::string& first, const std::string& now) {
      return g_.node("Concat", {first, now}, {{"axis", std::int64_t(2)}});
    };
    std::size_t crossed = 0;
    const auto attended = [&](const Keys& kv, bool causal) {
      if (!causal) return Keys{of_memory[crossed].k, of_memory[crossed++].v, memory_bias};
      const Keys& first = before[own.size()];
      return own.emplace_back(Keys{joined(first.k, kv.k), joined(first.v, kv.v)});
    };
    add_decoder(ids, /*memory=*/"", 1, position, attended);
    present(own, "decoder", kPastLength + " + 1");
  }

 private:
  Graph recorded(const std::function<Var(const Sentences&, const Sentences&, const ForwardPass&)>& run) {
    Tape tape;
    const ForwardPass pass{.tape = tape, .dtype = DType::f32};
    const TranslationBatch batch = TranslationBatch::of(model_.smallest_inputs());
    return graph_of(tape, {run(batch.source, batch.input, pass)}, sites_);
  }

  void add_decoder(const std::string& ids, const std::string& memory, const OnnxFile::Size& length,
                   const std::string& positions, const std::function<Keys(const Keys&, bool)>& attended) {
    int states = -1;
    const Graph graph = recorded([&](const Sentences& source, const Sentences& input, const ForwardPass& pass) {
      const Var given = pass.tape.variable(Tensor::zeros({source.rows.rows(), config_.width}, DType::f32));
      states = given.id();
      return model_.logits(model_.decode(input, given, source.rows, pass), pass);
    });
    OnnxRecording nodes(g_, model_, graph, OnnxSentences{positions, attended});
    nodes.give(graph.nodes[0].operands[1], ids);
    nodes.give(states, memory);
    g_.output(nodes.add(), "logits", DType::f32, {kBatch, length, config_.target_vocabulary});
  }

  OnnxFile::NamedSizes cached(const std::string& length) const {
    return {kBatch, config_.heads, length, config_.width / config_.heads};
  }
  Keys past(std::size_t layer, const char* of, const std::string& length) {
    const auto input = [&](const char* what) {
      return g_.input(fmt::format("past_key_values.{}.{}.{}", layer, of, what), DType::f32, cached(length));
    };
    const std::string k = input("key");
    return {k, input("value")};
  }
  // Declares the outputs of every layer, which follow the logits.
  void present(const std::vector<Keys>& all, const char* of, const std::string& length) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      g_.output(all[i].k, fmt::format("present.{}.{}.key", i, of), DType::f32, cached(length));
      g_.output(all[i].v, fmt::format("present.{}.{}.value", i, of), DType::f32, cached(length));
    }
  }

  Transformer& model_;
  const TransformerConfig& config_;
  OnnxFile& g_;
  std::vector<std::string> sites_;
};

// Returns config.json, which describes the model to Hugging Face's Transformers and Optimum: its sizes and special ids.
// The model is declared as Marian, because Marian also begins a translation with the end-of-sentence token.
ordered_json runtime_config(const TransformerConfig& config) {
  return {{"model_type", "marian"},
          {"is_encoder_decoder", true},
          {"vocab_size", config.target_vocabulary},  // beam search uses it as the width of the logits
          {"d_model", config.width},
          {"encoder_layers", config.encoder_layers},
          {"decoder_layers", config.decoder_layers},
          {"encoder_attention_heads", config.heads},
          {"decoder_attention_heads", config.heads},
          {"encoder_ffn_dim", config.ffn_width},
          {"decoder_ffn_dim", config.ffn_width},
          {"max_position_embeddings", config.max_positions},
          {"pad_token_id", config.pad},
          {"eos_token_id", kEos},
          {"decoder_start_token_id", kEos},
          {"forced_eos_token_id", nullptr}};
}

// Returns generation_config.json, the defaults of `generate`. With these defaults, decoding works as in foldgrad: it
// never chooses padding, and never starts with the end token. `forced_eos_token_id` is null, since Marian's default
// would end translations of maximum length with id 0.
ordered_json runtime_generation_config(const TransformerConfig& config) {
  return {{"pad_token_id", config.pad},        {"eos_token_id", kEos},
          {"decoder_start_token_id", kEos},    {"forced_eos_token_id", nullptr},
          {"bad_words_ids", {{config.pad}}},   {"min_new_tokens", 1},
          {"max_length", config.max_positions}};
}

}  // namespace

std::vector<std::string> Transformer::write_onnx(const std::string& directory) {
  require_exportable(*this, "a sentence, but a token-by-token decoder has only the earlier tokens");
  FOLDGRAD_CHECK(config_.pad != kEos,
                 "onnx: pad must not be {}, the end of a sentence: a translation begins with this id, and the exported "
                 "decoder would treat it as padding",
                 kEos);
  FOLDGRAD_CHECK(!std::filesystem::exists(directory + "/model.safetensors"),
                 "onnx: {} contains a model, whose config.json would be overwritten; choose another directory",
                 directory);
  std::deque<AtomicFile> files;
  std::vector<std::string> names;
  for (const auto& [name, build] : {std::pair{"encoder_model", &TransformerFile::encoder},
                                    {"decoder_model", &TransformerFile::decoder},
                                    {"decoder_with_past_model", &TransformerFile::decoder_with_past}}) {
    OnnxFile graph(name);
    TransformerFile nodes(*this, graph);
    (nodes.*build)();
    make_directories(directory);  // comes after everything that can throw std::invalid_argument
    names.push_back(std::string(name) + ".onnx");
    graph.write(files.emplace_back(directory + "/" + names.back()));
  }
  files.emplace_back(directory + "/config.json").write(runtime_config(config_).dump(2) + "\n");
  files.emplace_back(directory + "/generation_config.json").write(runtime_generation_config(config_).dump(2) + "\n");
  for (AtomicFile& file : files) file.commit();
  return names;
}

}  // namespace foldgrad
