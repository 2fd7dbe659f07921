// Tests that decoding with packed weights and with cached keys and values gives the same logits as full forward passes
// on the tape, on every device.
#include "models/transformer/inference.h"

#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

Tensor encoded_by_tape(Transformer& model, const TranslationBatch& batch) {
  Tape tape(/*recording=*/false);
  const ForwardPass pass{.tape = tape, .dtype = DType::f64};
  return encoded(model, batch, pass);
}

// Returns an f64 model with random weights and with the statistics of one training pass.
std::unique_ptr<Transformer> random_model(const TransformerConfig& config, const TranslationBatch& batch) {
  auto model = std::make_unique<Transformer>(config, 1, DType::f64);
  randomize(*model, 10);
  Tape tape;
  model->loss(batch, {.tape = tape, .dtype = DType::f64, .training = true, .seed = 1, .step = 1}, 0);
  return model;
}

bool has_statistics_of_sentences(const std::string& normalizer) {
  return normalizer == "instancenorm" || normalizer == "groupnorm";  // with the default options
}

TransformerConfig config_for(const std::string& normalizer, bool pre_norm) {
  TransformerConfig config = tiny_config(normalizer, pre_norm);
  config.encoder_layers = config.decoder_layers = 2;
  if (normalizer == "groupnorm") config.normalizer_options = {{"groups", "2"}};
  if (normalizer == "prepbn") config.normalizer_options = {{"total", "1"}};
  return config;
}

// Compares inference on each device with the tape. Only the order of summation differs, and the tolerance allows for
// it.
void expect_the_same(const TransformerConfig& config) {
  const TranslationBatch batch = translation_batch();
  const auto model = random_model(config, batch);
  for (const Device device : devices()) {
    SCOPED_TRACE(fmt::format("{}, {}", config.normalizer, name(device)));
    const auto there = model->copy(DType::f64, device);
    const InferenceTransformer inference(as_transformer(*there, "the test"));
    const Tensor encoded = inference.encode(batch.source);
    EXPECT_EQ(encoded.device(), device);
    EXPECT_TRUE(close(encoded, encoded_by_tape(*model, batch), 1e-11));
    if (has_statistics_of_sentences(config.normalizer)) continue;
    EXPECT_TRUE(close(logits_by_steps(inference, batch), logits_by_tape(*model, batch), 1e-11));
  }
}

TEST(InferenceTransformer, IsTheModelWithEveryNormalizer) {
  for (const NormalizerInfo& info : normalizers())
    for (bool pre_norm : {true, false})
      if (info.name != "deepnorm" || !pre_norm) expect_the_same(config_for(info.name, pre_norm));
}

// The 70 sentences have only 11 different tokens, so the first layer computes queries, keys and values once for each
// token, in 32 rows, most of which are padding.
TEST(InferenceTransformer, IsTheModelWithManyRowsOfFewTokens) {
  const std::int64_t sentences = 70;
  const Tensor source = random_ids({sentences * 3}, 11, 1), input = random_ids({sentences * 4}, 11, 2);
  const TranslationBatch batch{{source, Segments::equal(sentences, 3)}, {input, Segments::equal(sentences, 4)}, input};
  const auto model = random_model(config_for("un", true), batch);
  EXPECT_TRUE(
      close(logits_by_steps(InferenceTransformer(*model, DType::f64), batch), logits_by_tape(*model, batch), 1e-11));
}

TEST(InferenceTransformer, IsTheModelWithEveryActivation) {
  for (const std::string& activation : BlockConfig::activation_names()) {
    TransformerConfig config = config_for("ln", true);
    config.activation = activation;
    expect_the_same(config);
  }
}

// Folding can leave such a configuration: an output projection with a bias, and affine maps at some sites. With
// fixnorm, the rows of the tables also have length 1.
TEST(InferenceTransformer, IsTheModelWithWhatFoldingLeaves) {
  TransformerConfig config = config_for("none", false);
  config.share_embeddings = "inputs";
  config.output_bias = true;
  config.normalizer_at = {{"encoder.layers.1.self_attn.residual", "affine"},
                          {"decoder.layers.0.ffn.residual", "centernorm"},
                          {"decoder.layers.1.encoder_attn_layer_norm", "affine"}};
  expect_the_same(config);
  config.fixnorm = true;
  expect_the_same(config);
  config.share_embeddings = "none";
  config.pre_norm = true;
  expect_the_same(config);
}

// In f32, each of a dozen sublayers rounds 24 times; we saw differences of up to 3e-6. In bf16, weights and operands of
// matrix products have 8 significant bits, and their errors of about 2^-9 each add up like a random walk. For logits
// with a standard deviation of 1.6, we saw up to 0.03, and up to 0.05 on a device, where the stream is bf16, too. A
// mistake in the computation would cause a far larger difference.
TEST(InferenceTransformer, LowerPrecisionIsClose) {
  for (const char* normalizer : {"ln", "rmsnorm", "un", "none", "dyt"})
    for (bool pre_norm : {true, false}) {
      const TranslationBatch batch = translation_batch();
      TransformerConfig config = config_for(normalizer, pre_norm);
      const auto exact = random_model(config, batch);
      const Tensor want = logits_by_tape(*exact, batch);
      for (const Device device : devices()) {
        Transformer model(config, 1, DType::f32, device);
        model.copy_from(*exact);
        const double rounding = device == Device::cpu ? 0.1 : 0.2;  // tolerance for bf16
        for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 2e-5}, {DType::bf16, rounding}}) {
          const InferenceTransformer inference(model, dtype);
          EXPECT_EQ(inference.encode(batch.source).dtype(), dtype);
          EXPECT_TRUE(close(logits_by_steps(inference, batch), want, tolerance))
              << normalizer << " " << name(dtype) << " on " << name(device);
        }
      }
    }
}

TEST(InferenceTransformer, Messages) {
  Transformer model(config_for("ln", true), 1);
  EXPECT_EQ(message_of([&] { InferenceTransformer(model, DType::f64); }),
            "inference: a model of type f32 must run in f32 or bf16, got f64");
  const InferenceTransformer inference(model, DType::f32);
  const auto encode_error = [&](const Sentences& sources) { return message_of([&] { inference.encode(sources); }); };
  EXPECT_EQ(encode_error(Sentences::of({{4, 11}})), "inference: ids must be in [0, 11), got 11");
  EXPECT_EQ(encode_error(Sentences::of({Ids(13)})),
            "inference: sentences must have at most max_positions = 12 tokens, got 13");
  if (!cuda_available()) return;
  EXPECT_EQ(encode_error({Tensor::of<std::int64_t>({1}, {4}, Device::cuda), Segments({1})}),
            "inference: sources must be on cpu, got a source on cuda");
}

}  // namespace
}  // namespace foldgrad::testing
