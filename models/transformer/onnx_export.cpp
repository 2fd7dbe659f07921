#include "models/transformer/onnx_export.h"

#include <cmath>
#include <deque>
#include <filesystem>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "models/inference/norm.h"
#include "models/onnx/layers.h"
#include "models/transformer/beam_search.h"
#include "models/transformer/onnx_config.h"

namespace foldgrad {
namespace {

// Codes of ONNX's types.
const OnnxGraph::Attribute kToF32{"to", std::int64_t(1)}, kToI64{"to", std::int64_t(7)}, kToBool{"to", std::int64_t(9)};

const std::string kBatch = "batch_size", kSourceLength = "encoder_sequence_length",
                  kTargetLength = "decoder_sequence_length", kPastLength = "past_decoder_sequence_length";

// [batch, heads, length, width / heads]
struct KeysAndValues {
  std::string k, v;
};

class TransformerNodes {
 public:
  TransformerNodes(Transformer& model, OnnxFile& g) : model_(model), config_(model.config()), g_(g) {
    g.metadata("pad", std::to_string(config_.pad));
    g.metadata("eos", std::to_string(DecodingOptions().eos));
    g.metadata("max_positions", std::to_string(config_.max_positions));
  }

  void encoder() {
    const std::string ids = g_.input("input_ids", DType::i64, {kBatch, kSourceLength}),
                      mask = g_.input("attention_mask", DType::i64, {kBatch, kSourceLength});
    g_.at("encoder.embed_tokens");
    const std::string bias = bias_of_keys(mask), placed = add_positions(embed(model_.source_table(), ids), mask);
    std::string x = g_.node("Mul", {placed, as_column(mask)});
    for (TransformerLayer& layer : model_.encoder_layers()) {
      const AttentionBlock& block = layer.self_attention;
      x = onnx_sublayer(g_, block.sublayer, x,
                        [&](const std::string& in) { return attention(block, in, projected(block, in), bias); });
      x = feed_forward(layer, x);
    }
    g_.output(onnx_normalizer(g_, model_.encoder_norm(), x), "last_hidden_state", DType::f32,
              {kBatch, kSourceLength, config_.width});
  }

  // A whole prefix. Padding, which may stand on either side, is where ids are config.pad.
  void decoder() {
    const std::string ids = g_.input("input_ids", DType::i64, {kBatch, kTargetLength}), memory_mask = source_mask(),
                      memory = g_.input("encoder_hidden_states", DType::f32, {kBatch, kSourceLength, config_.width});
    g_.at("decoder.embed_tokens");
    const std::string real = g_.node("Not", {g_.node("Equal", {ids, g_.integer(config_.pad)})});
    const std::string x = add_positions(embed(model_.target_table(), ids), g_.node("Cast", {real}, {kToI64}));
    const std::string seen = g_.node("And", {not_later(ids), g_.node("Unsqueeze", {real, g_.integers({1, 2})})});
    const Biases biases{onnx_attention_bias(g_, seen), bias_of_keys(memory_mask)};
    const std::string column = as_column(memory_mask);
    std::vector<KeysAndValues> of_memory;
    for (const TransformerLayer& layer : model_.decoder_layers()) {
      const AttentionBlock& block = *layer.cross_attention;
      g_.at(block.sublayer.name);
      const std::string k = onnx_linear(g_, block.k, memory);
      // A source without any token must give 0, not the mean over its padding that softmax leaves.
      const std::string v = g_.node("Mul", {onnx_linear(g_, block.v, memory), column});
      of_memory.push_back({split_heads(k), split_heads(v)});
      present(of_memory.size() - 1, "encoder", of_memory.back(), kSourceLength);
    }
    decoder_layers(x, biases, of_memory, {}, kTargetLength, kTargetLength);
  }

  // One more token of every row.
  void decoder_with_past() {
    const std::string ids = g_.input("input_ids", DType::i64, {kBatch, 1}), memory_mask = source_mask();
    std::vector<KeysAndValues> own, of_memory;
    for (std::size_t i = 0; i < model_.decoder_layers().size(); ++i) {
      own.push_back(past(i, "decoder", kPastLength));
      of_memory.push_back(past(i, "encoder", kSourceLength));
    }
    g_.at("decoder.embed_tokens");
    const std::string length = g_.node("Gather", {g_.node("Shape", {own[0].k}), g_.integer(2)});
    const std::string position = g_.node("Add", {length, g_.integer(2)});  // the first token had 2 [POS-2]
    const std::string x =
        g_.node("Add", {embed(model_.target_table(), ids), g_.node("Gather", {positions(), position})});
    decoder_layers(x, {"", bias_of_keys(memory_mask)}, of_memory, own, 1, kPastLength + " + 1");
  }

 private:
  struct Biases {
    std::string own, of_memory;  // of attention
  };

  // of_memory: of every layer; own: of the tokens before x, empty where there are none. Lengths: of x, and with those.
  void decoder_layers(std::string x, const Biases& biases, const std::vector<KeysAndValues>& of_memory,
                      const std::vector<KeysAndValues>& own, const OnnxFile::Size& length,
                      const std::string& whole_length) {
    for (std::size_t i = 0; i < model_.decoder_layers().size(); ++i) {
      TransformerLayer& layer = model_.decoder_layers()[i];
      const AttentionBlock &self = layer.self_attention, &cross = *layer.cross_attention;
      x = onnx_sublayer(g_, self.sublayer, x, [&](const std::string& in) {
        KeysAndValues kv = projected(self, in);
        if (!own.empty()) kv = {behind(own[i].k, kv.k), behind(own[i].v, kv.v)};
        present(i, "decoder", kv, whole_length);
        return attention(self, in, kv, biases.own);
      });
      x = onnx_sublayer(g_, cross.sublayer, x,
                        [&](const std::string& in) { return attention(cross, in, of_memory[i], biases.of_memory); });
      x = feed_forward(layer, x);
    }
    output_logits(onnx_normalizer(g_, model_.decoder_norm(), x), length);
  }

  std::string behind(const std::string& before, const std::string& now) {
    return g_.node("Concat", {before, now}, {{"axis", std::int64_t(2)}});
  }

  std::string source_mask() { return g_.input("encoder_attention_mask", DType::i64, {kBatch, kSourceLength}); }

  // Embeddings.
  std::string table_of(const Parameter& table) { return g_.initializer(table.name, model_.rows_of(table)); }
  std::string embed(const Parameter& table, const std::string& ids) {
    return g_.node("Mul", {g_.node("Gather", {table_of(table), ids}), g_.number(std::sqrt(double(config_.width)))});
  }
  std::string positions() { return g_.initializer("positions", model_.positions(DType::f32)); }
  // mask: i64 [batch, length]
  std::string add_positions(const std::string& x, const std::string& mask) {
    const std::string count = g_.node("Mul", {g_.node("CumSum", {mask, g_.integer(1)}), mask});
    const std::string position = g_.node("Add", {count, g_.integer(1)});  // [POS-2]
    return g_.node("Add", {x, g_.node("Gather", {positions(), position})});
  }

  // Masks, i64 [batch, length], as factors [batch, length, 1] and as biases of attention [batch, 1, 1, length].
  std::string as_column(const std::string& mask) {
    return g_.node("Unsqueeze", {g_.node("Cast", {mask}, {kToF32}), g_.integers({2})});
  }
  std::string bias_of_keys(const std::string& mask) {
    const std::string real = g_.node("Cast", {mask}, {kToBool});
    return onnx_attention_bias(g_, g_.node("Unsqueeze", {real, g_.integers({1, 2})}));
  }
  // bool [queries, keys]
  std::string not_later(const std::string& ids) {
    const std::string length = g_.node("Gather", {g_.node("Shape", {ids}), g_.integer(1)});
    const std::string places = g_.node("Range", {g_.integer(0), length, g_.integer(1)});
    return g_.node("LessOrEqual", {places, g_.node("Unsqueeze", {places, g_.integers({1})})});
  }

  // Layers.
  std::string split_heads(const std::string& x) { return onnx_split_heads(g_, x, config_.heads, config_.width); }
  KeysAndValues projected(const AttentionBlock& block, const std::string& x) {
    const std::string k = onnx_linear(g_, block.k, x), v = onnx_linear(g_, block.v, x);
    return {split_heads(k), split_heads(v)};
  }
  std::string attention(const AttentionBlock& block, const std::string& x, const KeysAndValues& kv,
                        const std::string& bias) {
    const std::string q = split_heads(onnx_linear(g_, block.q, x));
    return onnx_attention(g_, q, kv.k, kv.v, bias, config_.width / config_.heads, config_.width);
  }
  std::string feed_forward(const TransformerLayer& layer, const std::string& x) {
    const FeedForwardBlock& block = layer.feed_forward;
    return onnx_sublayer(g_, block.sublayer, x, [&](const std::string& in) {
      return onnx(g_, config_.activation_function(), onnx_linear(g_, block.fc1, in));
    });
  }

  // Keys and values, named as runtimes expect them. Those of the past are inputs, the present ones outputs, declared
  // behind the logits.
  static std::string name(const char* time, std::size_t layer, const char* of, const char* what) {
    return fmt::format("{}.{}.{}.{}", time, layer, of, what);
  }
  OnnxFile::NamedSizes cached(const std::string& length) const {
    return {kBatch, config_.heads, length, config_.width / config_.heads};
  }
  KeysAndValues past(std::size_t layer, const char* of, const std::string& length) {
    const auto input = [&](const char* what) {
      return g_.input(name("past_key_values", layer, of, what), DType::f32, cached(length));
    };
    const std::string k = input("key");
    return {k, input("value")};
  }
  void present(std::size_t layer, const char* of, const KeysAndValues& kv, const std::string& length) {
    present_.push_back({kv.k, name("present", layer, of, "key"), length});
    present_.push_back({kv.v, name("present", layer, of, "value"), length});
  }

  void output_logits(const std::string& hidden, const OnnxFile::Size& length) {
    g_.at("decoder.output_projection");
    // The table lies in the file once where it is also that of the embeddings.
    const std::string columns = g_.node("Transpose", {table_of(model_.output_table())});
    std::string z = g_.node("MatMul", {hidden, columns});
    if (const Parameter* bias = model_.output_bias()) z = g_.node("Add", {z, g_.initializer(bias->name, bias->value)});
    g_.output(z, "logits", DType::f32, {kBatch, length, config_.target_vocabulary});
    for (const Present& p : present_) g_.output(p.value, p.name, DType::f32, cached(p.length));
  }

  struct Present {
    std::string value, name, length;
  };

  Transformer& model_;
  const TransformerConfig& config_;
  OnnxFile& g_;
  std::vector<Present> present_;
};

}  // namespace

std::vector<std::string> write_onnx(Transformer& model, const std::string& directory) {
  FOLDGRAD_CHECK(model.device() == Device::cpu && model.dtype() == DType::f32,
                 "onnx: the model must be f32 on cpu, got {} on {}", name(model.dtype()), name(model.device()));
  for (const Normalizer* norm : model.normalizers())
    FOLDGRAD_CHECK(!norm->mixes_tokens(),
                   "onnx: {} ({}) has statistics over the tokens of a sentence, which a decoder of one token after the "
                   "other does not know",
                   norm->site(), norm->info().name);
  FOLDGRAD_CHECK(!std::filesystem::exists(directory + "/model.safetensors"),
                 "onnx: {} holds a model, whose config.json would be replaced; name another directory", directory);
  std::deque<AtomicFile> files;
  std::vector<std::string> names;
  for (const auto& [name, build] : {std::pair{"encoder_model", &TransformerNodes::encoder},
                                    {"decoder_model", &TransformerNodes::decoder},
                                    {"decoder_with_past_model", &TransformerNodes::decoder_with_past}}) {
    const auto graph = OnnxFile::make(name);
    TransformerNodes nodes(model, *graph);
    (nodes.*build)();
    make_directories(directory);  // only now, when nothing can be refused any more
    names.push_back(std::string(name) + ".onnx");
    graph->write(files.emplace_back(directory + "/" + names.back()));
  }
  files.emplace_back(directory + "/config.json").write(runtime_config(model.config()));
  files.emplace_back(directory + "/generation_config.json").write(runtime_generation_config(model.config()));
  for (AtomicFile& file : files) file.commit();
  return names;
}

}  // namespace foldgrad
