#include <cmath>

#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/positions/positions.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

// An independent forward pass from plain operations: pre-norm, one table of embeddings, gelu, and no dropout.
class TransformerByHand {
 public:
  // `values` are the parameters of a model by name.
  TransformerByHand(const TransformerConfig& config, const NamedTensors& values) : config_(config), values_(values) {}

  // Returns the loss, summed over the tokens of `target`. All ids are [tokens].
  double loss(const Tensor& source, const Segments& sources, const Tensor& input, const Segments& inputs,
              const Tensor& target, double label_smoothing) {
    const Var memory = stack("encoder", config_.encoder_layers, source, sources, nullptr, sources);
    const Var hidden = stack("decoder", config_.decoder_layers, input, inputs, &memory, sources);
    return cross_entropy(linear(hidden, value("encoder.embed_tokens.weight")), tape_.constant(target),
                         {.label_smoothing = label_smoothing, .ignore_index = kPad, .reduction = Reduction::sum})
        .value()
        .item();
  }

 private:
  Var stack(const std::string& side, std::int64_t layers, const Tensor& ids, const Segments& rows, const Var* memory,
            const Segments& of_memory) {
    Var x =
        embedding(value("encoder.embed_tokens.weight"), tape_.constant(ids), std::sqrt(double(config_.width)), kPad);
    x = sinusoidal_positions(x, rows.places(), sinusoidal_table(/*rows=*/8, config_.width, x.dtype()));
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string layer = side + ".layers." + std::to_string(i) + ".";
      const Var query = norm(layer + "self_attn_layer_norm", x);
      x = add(x, attend(layer + "self_attn", query, rows, query, rows, /*causal=*/memory != nullptr));
      if (memory)
        x = add(x, attend(layer + "encoder_attn", norm(layer + "encoder_attn_layer_norm", x), rows, *memory, of_memory,
                          /*causal=*/false));
      x = add(x, project(layer + "fc2", gelu(project(layer + "fc1", norm(layer + "final_layer_norm", x)))));
    }
    return norm(side + ".layer_norm", x);
  }
  Var attend(const std::string& name, const Var& query, const Segments& rows, const Var& keys, const Segments& of_keys,
             bool causal) {
    const Var q = project(name + ".q_proj", query), k = project(name + ".k_proj", keys),
              v = project(name + ".v_proj", keys);
    return project(name + ".out_proj",
                   attention(q, k, v, {.heads = int(config_.heads), .causal = causal}, rows, of_keys));
  }
  Var project(const std::string& name, const Var& x) {
    return linear(x, value(name + ".weight"), value(name + ".bias"));
  }
  Var norm(const std::string& name, const Var& x) {
    return layer_norm(x, value(name + ".weight"), value(name + ".bias"));
  }
  Var value(const std::string& name) { return tape_.constant(values_.at(name)); }

  static constexpr std::int64_t kPad = 1;
  const TransformerConfig config_;
  const NamedTensors values_;
  Tape tape_{/*recording=*/false};
};

TEST(Transformer, TRF_1_TRF_2_TRF_3_IsTheModelAssembledByHand) {
  TransformerConfig config = tiny_config();
  config.encoder_layers = config.decoder_layers = 2;
  Transformer model(config, 1, DType::f64);
  randomize(model, 3);
  const auto ids = [](const std::vector<std::int64_t>& v) { return Tensor::of({std::int64_t(v.size())}, v); };
  TransformerByHand by_hand(config, model.values());
  const double want =
      by_hand.loss(ids({4, 5, 6, 2, 7, 8, 9, 10, 2, 4, 10, 2}), Segments({4, 5, 3}), ids({2, 5, 4, 6, 2, 9, 9, 2, 10}),
                   Segments({4, 3, 2}), ids({5, 4, 6, 2, 9, 9, 2, 10, 2}), /*label_smoothing=*/0.1);
  EXPECT_NEAR(loss_of(model, translation_batch().named()), want, 1e-12 * want);  // the same sentences
}

Tensor training_logits(Transformer& model, const TranslationBatch& batch, std::optional<DType> dtype = {}) {
  return logits_by_tape(model, batch, /*training=*/true, dtype);
}

// Matrix products have one row for each token, and no rows for padding.
TEST(Transformer, RowsComputedAreTokens) {
  Transformer model(tiny_config("un"), 1);
  const TranslationBatch batch = translation_batch();  // 12 source and 9 target tokens
  Tape tape;
  std::map<std::int64_t, int> products;  // number of products for each number of rows
  tape.observe([&](const Node& node, const Tensor& y) {
    if (node.name() == std::string("linear")) ++products[y.shape().without(-1).elements()];
  });
  tape.backward(model.loss(batch, {.tape = tape, .dtype = DType::f32, .training = true}, 0.1));
  // Eight products have 12 rows, one for each source token: four products in self-attention, two in the feed-forward
  // block, and the keys and values of cross-attention. Nine products have 9 rows, one for each target token: four
  // products in self-attention, two in cross-attention, two in the feed-forward block, and the output projection.
  EXPECT_EQ(products, (std::map<std::int64_t, int>{{12, 8}, {9, 9}}));
}

// If the statistics of a normalizer cover only a row or only a sentence, the logits of a sentence do not depend on the
// other sentences of the batch. On the device, where the matrix products are ours, the logits are bit-identical. On the
// CPU, libraries add in an order that depends on the number of rows, and instancenorm magnifies these rounding errors
// up to a hundredfold for sentences of two tokens.
TEST(Transformer, OtherSentencesChangeNothing) {
  for (const char* normalizer : {"ln", "rmsnorm", "instancenorm"})
    for (const Device device : devices())
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        if (device == Device::cpu && dtype != DType::f64) continue;
        TransformerConfig config = tiny_config(normalizer);
        config.width = 32, config.ffn_width = 16, config.heads = 1;
        Transformer model(config, 1, dtype == DType::f64 ? DType::f64 : DType::f32, device);
        const TranslationBatch batch = translation_batch();
        const Tensor all = training_logits(model, batch, dtype);
        std::int64_t first = 0;
        for (std::int64_t b = 0; b < 3; ++b) {
          const Tensor alone = training_logits(model, TranslationBatch::of(part_of(batch.named(), b, b + 1)), dtype);
          const std::int64_t next = first + alone.shape()[0];
          const Tensor among = all.slice(first, next);
          EXPECT_TRUE(device == Device::cpu ? close(among, alone, 1e-12) : identical(among, alone))
              << normalizer << ", sentence " << b << ", " << name(dtype) << " on " << name(device);
          first = next;
        }
      }
}

TEST(Transformer, PostNormNormalizesTheSumWithAScaledResidual) {
  Transformer model(tiny_config("deepnorm", /*pre_norm=*/false), 1, DType::f64);
  randomize(model, 3);
  Tape tape;
  Sublayer& sublayer = model.encoder_layers()[0].feed_forward.sublayer;
  const Var branch = tape.constant(randn({2, 12}, 1)), x = tape.constant(randn({2, 8}, 2));
  const ForwardPass pass{.tape = tape, .dtype = DType::f64};
  EXPECT_GT(std::abs(sublayer.constants().scale - 1), 0.1);
  const Var sum = add(scale(x, sublayer.constants().scale), sublayer.out(branch, pass));
  EXPECT_TRUE(close(sublayer(x, Segments({2}), pass, [&](const Var&) { return branch; }).value(),
                    sublayer.norm->apply(sum, {}).value(), 1e-14));
}

}  // namespace
}  // namespace foldgrad::testing
