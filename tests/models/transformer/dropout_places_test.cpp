// Tests that each place with dropout in a Transformer has its own mask, and that fixnorm divides the rows of tables by
// their lengths.
#include "models/fold/model.h"
#include "ops/scale_norm/scale_norm.h"
#include "tests/models/spread.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kBits = 64;  // number of bits compared in each mask
using Masks = std::map<std::string, std::vector<bool>>;

// Returns a mask of the zeros among the first kBits elements. These are the dropped elements if no other element is 0.
std::vector<bool> zeros(const Tensor& t) {
  std::vector<bool> bits;
  for (double v : t.values<double>())
    if (std::int64_t(bits.size()) < kBits) bits.push_back(v == 0);
  return bits;
}

class DropoutPlaces : public ::testing::Test {
 protected:
  DropoutPlaces() {
    TransformerConfig config = tiny_config("none");
    config.encoder_layers = config.decoder_layers = 2;
    config.heads = 1;
    config.dropout = config.attention_dropout = config.activation_dropout = 0.5;
    model_ = std::make_unique<Transformer>(config, 1, DType::f64);
    for (Parameter* p : model_->parameters()) p->value.copy_from(randn(p->value.shape(), ++seed_));
  }

  ForwardPass pass() { return {.tape = tape_, .dtype = DType::f64, .training = true, .seed = 1, .step = 1}; }
  // Runs `body`. Returns a mask of the zeros in the result of the last operation named `kind` that `body` records.
  template <class Body>
  std::vector<bool> zeros_of(const char* kind, const Body& body) {
    std::vector<bool> found;
    tape_.observe([&](const Node& node, const Tensor& y) {
      if (node.name() == std::string(kind)) found = zeros(y);
    });
    body();
    tape_.observe(nullptr);
    return found;
  }

  // Adds the mask of a residual sum. The stream is 0, so the sum shows only the branch.
  void add_sum(Sublayer& sublayer, Masks& masks) {
    const std::int64_t in = sublayer.out.weight.value.shape()[1];
    const Var branch = tape_.constant(randn({8, in}, 1)), x = tape_.constant(Tensor::zeros({8, 8}, DType::f64));
    masks[sublayer.name + ", sum"] = zeros(sublayer(x, rows_, pass(), [&](const Var&) { return branch; }).value());
  }
  // Adds the masks of the attention probabilities and of the residual sum. Queries and keys are 0 and the values are
  // the identity, so the attention's output equals its probabilities.
  void add_attention(AttentionBlock& block, Masks& masks) {
    const Tensor identity = Tensor::zeros({8, 8}, DType::f64);
    for (int i = 0; i < 8; ++i) identity.data<double>()[i * 8 + i] = 1;
    for (LinearLayer& layer : block.qkv) layer.weight.value.zero(), layer.bias.value.zero();
    block.qkv[2].weight.value.copy_from(identity);
    const Var x = tape_.constant(identity);
    masks[block.sublayer.name + ", attention"] =
        zeros_of("attention", [&] { block.attend(x, rows_, /*causal=*/false, pass()); });
    add_sum(block.sublayer, masks);
  }
  void add_layer(TransformerLayer& layer, Masks& masks) {
    add_attention(layer.self_attention, masks);
    if (layer.cross_attention) add_attention(*layer.cross_attention, masks);
    FeedForwardBlock& ffn = layer.feed_forward;
    masks[ffn.sublayer.name + ", activation"] = zeros_of("bias_activation_dropout", [&] {
      ffn(tape_.constant(randn({8, 8}, 2)), rows_, pass());
    });
    add_sum(ffn.sublayer, masks);
  }

  const Segments rows_{{8}};
  unsigned seed_ = 0;
  Tape tape_;
  std::unique_ptr<Transformer> model_;
};

TEST_F(DropoutPlaces, EachHasAMaskOfItsOwn) {
  const Sentences sentences{Tensor::of<std::int64_t>({8}, {4, 5, 6, 7, 8, 9, 10, 4}), Segments({4, 4})};
  TransformerConfig config = model_->config();
  config.activation_dropout = 0;  // now only the embeddings record "dropout"
  Transformer embedding(config, 1, DType::f64);
  Masks masks;
  Var memory;
  masks["encoder"] = zeros_of("dropout", [&] { memory = embedding.encode(sentences, pass()); });
  masks["decoder"] = zeros_of("dropout", [&] { embedding.decode(sentences, memory, sentences.rows, pass()); });
  for (auto* stack : {&model_->encoder_layers(), &model_->decoder_layers()})
    for (TransformerLayer& layer : *stack) add_layer(layer, masks);
  ASSERT_EQ(masks.size(), 2u + 6u + 4u + 10u);  // embeddings, attentions, activations, sums

  // Two independent masks agree in 32 of 64 bits on average, with a standard deviation of 4.
  for (auto a = masks.begin(); a != masks.end(); ++a) {
    ASSERT_EQ(std::int64_t(a->second.size()), kBits) << a->first;
    for (auto b = std::next(a); b != masks.end(); ++b) {
      int equal = 0;
      for (std::int64_t i = 0; i < kBits; ++i) equal += a->second[i] == b->second[i];
      EXPECT_LE(equal, 56) << a->first << " and " << b->first;
    }
  }
}

TransformerConfig fixnorm_config(const std::string& share) {
  TransformerConfig config = tiny_config("un");
  config.fixnorm = true;
  config.share_embeddings = share;
  return config;
}

// Returns a copy of the model without fixnorm. Each row of its tables has been divided by the row's length.
std::unique_ptr<Transformer> divided(Transformer& model) {
  TransformerConfig config = model.config();
  config.fixnorm = false;
  auto plain = std::make_unique<Transformer>(config, 1, DType::f64);
  plain->copy_from(model);
  for (Parameter* p : plain->parameters()) {
    if (p->name.find("embed_tokens") == std::string::npos && p->name != "decoder.output_projection.weight") continue;
    Tape tape(/*recording=*/false);
    p->value.copy_from(unit_rows(tape.constant(p->value)).value());
  }
  return plain;
}

TEST(FixNorm, FN_1_IsTheModelWithDividedRows) {
  const TranslationBatch batch = translation_batch();
  for (const char* share : {"all", "decoder", "inputs", "none"}) {
    SCOPED_TRACE(share);
    Transformer model(fixnorm_config(share), 1, DType::f64);
    randomize(model, 10, 3);
    const auto plain = divided(model);
    const Tensor want = inference_logits(*plain, batch.named(), DType::f64);
    EXPECT_TRUE(close(inference_logits(model, batch.named(), DType::f64), want, 1e-12));
    EXPECT_TRUE(close(logits_by_steps(InferenceTransformer(model, DType::f64), batch), want, 1e-12));
    const FoldedModel folded = fold(model, {.tied = FoldOptions::Tied::untie});
    EXPECT_FALSE(transformer_of(folded).config().fixnorm);
    EXPECT_TRUE(close(inference_logits(*folded.model, batch.named(), DType::f64), want, 1e-11));
    for (Parameter* p : model.parameters())
      if (p->name == "encoder.embed_tokens.weight") {
        EXPECT_FALSE(close(transformer_of(folded).source_table().value, p->value, 0.1));
      }
  }
}

// The gradient of a shared table comes from both embeddings and from the output projection. Row 1 belongs to the
// padding token and gets a gradient only from its logit.
TEST(FixNorm, FN_1_SN_2_Gradients) {
  Transformer model(fixnorm_config("all"), 1, DType::f64);
  randomize(model, 10);
  check_gradients(model, translation_batch().named());
}

TEST(FixNorm, BeginsUniformWithinAHundredth) {
  TransformerConfig config = fixnorm_config("none");
  config.source_vocabulary = config.target_vocabulary = 1000;
  for (const char* initialization : {"fairseq", "xavier", "tfixup"}) {
    config.initialization = initialization;
    Transformer model(config, 1, DType::f64);
    for (const Parameter* table : {&model.source_table(), &model.target_table(), &model.output_table()})
      expect_uniform(table->value.slice(2, 1000), 0.01);
    EXPECT_EQ(model.source_table().value.slice(1, 2).values<double>(), std::vector<double>(8, 0.0));
  }
}

}  // namespace
}  // namespace foldgrad::testing
