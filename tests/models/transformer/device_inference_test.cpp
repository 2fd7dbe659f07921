// Decoding on a device: what the path of the CPU gives, which other tests compare with full forward passes.
#include "models/fold/model.h"
#include "models/transformer/beam_search.h"
#include "tests/models/transformer/step_logits.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }

  // Two layers with random weights and, after a training forward, statistics of its own.
  static std::unique_ptr<Transformer> random_model(TransformerConfig config, DType dtype = DType::f64) {
    config.encoder_layers = config.decoder_layers = 2;
    auto model = std::make_unique<Transformer>(config, 1, dtype);
    randomize(*model, 10, 0.3);
    Tape tape;
    model->loss(translation_batch(1), {.tape = tape, .dtype = dtype, .training = true, .seed = 1, .step = 1}, 0);
    return model;
  }
  static TransformerConfig config_for(const std::string& normalizer, bool pre_norm = true) {
    TransformerConfig config = tiny_config(normalizer, pre_norm);
    if (normalizer == "groupnorm") config.normalizer_options = {{"groups", "2"}};
    if (normalizer == "prepbn") config.normalizer_options = {{"total", "1"}};
    return config;
  }
  static std::unique_ptr<Transformer> on_device(const Model& model) {
    auto copy = model.copy(model.dtype(), Device::cuda);
    return std::unique_ptr<Transformer>(static_cast<Transformer*>(copy.release()));
  }

  // The order of sums is all that differs.
  static void expect_the_same(Transformer& model) {
    const TranslationBatch batch = translation_batch(/*extra=*/1);
    const auto there = on_device(model);
    const InferenceTransformer want(model), got(*there);
    const Tensor encoded = got.encode(batch.source, batch.source_mask);
    EXPECT_EQ(encoded.device(), Device::cuda);
    const std::string& normalizer = model.config().normalizer;
    EXPECT_TRUE(close(encoded.to(Device::cpu), want.encode(batch.source, batch.source_mask), 1e-11)) << normalizer;
    if (normalizer == "instancenorm" || normalizer == "groupnorm") return;  // statistics of whole sentences
    EXPECT_TRUE(close(logits_by_steps(got, batch), logits_by_steps(want, batch), 1e-11)) << normalizer;
  }
};

TEST_F(OnDevice, IsTheCpuWithEveryNormalizer) {
  for (const NormalizerInfo& info : normalizers())
    for (const bool pre_norm : {true, false})
      if (info.name != "deepnorm" || !pre_norm) expect_the_same(*random_model(config_for(info.name, pre_norm)));
}

TEST_F(OnDevice, IsTheCpuWithTablesOfTheirOwnAndFixnorm) {
  TransformerConfig config = config_for("un");
  config.share_embeddings = "inputs", config.output_bias = true;
  expect_the_same(*random_model(config));
  config.fixnorm = true;
  expect_the_same(*random_model(config));
}

TEST_F(OnDevice, IsTheCpuWithAFoldedModel) {
  const auto model = random_model(config_for("un"));
  FoldedModel folded = fold(*model, {.tied = FoldOptions::Tied::untie});
  expect_the_same(transformer_of(folded));
}

// Rows are chosen anew before each step, some twice and some not at all.
TEST_F(OnDevice, RowsDescendFromTheirParents) {
  const auto model = random_model(config_for("ln")), there = on_device(*model);
  const TranslationBatch batch = translation_batch();
  const InferenceTransformer on_cpu(*model), on_cuda(*there);
  StepDecoder want(on_cpu, batch.source, batch.source_mask), got(on_cuda, batch.source, batch.source_mask);
  using Rows = std::vector<std::vector<std::int64_t>>;
  const Rows parents{{0, 1, 2}, {2, 0, 0, 1}, {3, 1, 1, 0, 2}, {4, 0}},
      tokens{{2, 2, 2}, {4, 5, 6, 7}, {8, 9, 10, 4, 5}, {6, 7}};
  for (std::size_t s = 0; s < parents.size(); ++s) {
    EXPECT_EQ(got.steps(), std::int64_t(s));
    const Tensor z = got.step(tokens[s], parents[s]);
    EXPECT_EQ(z.device(), Device::cuda);
    EXPECT_TRUE(close(z.to(Device::cpu), want.step(tokens[s], parents[s]), 1e-11)) << s;
  }
}

TEST_F(OnDevice, GreedyAndBeamSearchTranslateAlike) {
  std::size_t words = 0;
  for (const char* normalizer : {"un", "none"}) {
    const auto model = random_model(config_for(normalizer)), there = on_device(*model);
    const TranslationBatch batch = translation_batch();
    for (const std::int64_t beam : {1, 3}) {
      const DecodingOptions options{.beam = beam, .max_length_a = 0, .max_length_b = 7, .unk_penalty = 0.2};
      const auto want = beam_search(*model, batch.source, batch.source_mask, options),
                 got = beam_search(*there, batch.source, batch.source_mask, options);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t s = 0; s < want.size(); ++s) {
        ASSERT_EQ(got[s].size(), want[s].size());
        for (std::size_t h = 0; h < want[s].size(); ++h) {
          EXPECT_EQ(got[s][h].ids, want[s][h].ids) << normalizer << " " << beam << " " << s;
          EXPECT_NEAR(got[s][h].score, want[s][h].score, 1e-11);
          words += want[s][h].ids.size();
        }
      }
    }
  }
  EXPECT_GT(words, 60u);  // or there was little to translate
}

// In f32 some roundings in each of a dozen sublayers. In bf16 the stream is bf16 too: 8 bits, some 20 roundings deep;
// seen 0.05 for logits of deviation 1.6. An error in the way of computation is larger than either by far.
TEST_F(OnDevice, LowerPrecisionIsClose) {
  const TranslationBatch batch = translation_batch();
  for (const char* normalizer : {"ln", "un"}) {
    const auto exact = random_model(config_for(normalizer));
    const Tensor want = logits_by_steps(InferenceTransformer(*exact), batch);
    Transformer model(exact->config(), 1, DType::f32, Device::cuda);
    model.copy_from(*exact);
    for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 2e-5}, {DType::bf16, 0.2}}) {
      const InferenceTransformer inference(model, dtype);
      EXPECT_EQ(inference.encode(batch.source, batch.source_mask).dtype(), dtype);
      EXPECT_TRUE(close(logits_by_steps(inference, batch), want, tolerance)) << normalizer << " " << name(dtype);
    }
  }
}

TEST_F(OnDevice, Messages) {
  const auto model = on_device(*random_model(config_for("instancenorm")));
  const InferenceTransformer inference(*model);
  const Tensor ids = Tensor::of<std::int64_t>({1, 2}, {4, 11}), good = Tensor::of<std::int64_t>({1, 2}, {4, 2});
  EXPECT_EQ(message_of([&] { inference.encode(ids, mask_of(ids)); }), "inference: ids must be in [0, 11), got 11");
  EXPECT_EQ(message_of([&] { inference.encode(good.to(Device::cuda), mask_of(good)); }),
            "inference: takes sources on cpu, got a source on cuda and its mask on cpu");
  EXPECT_EQ(message_of([&] { StepDecoder(inference, good, mask_of(good)); }),
            "decoding: encoder.layers.0.self_attn_layer_norm (instancenorm) has statistics over the tokens of a "
            "sentence, which are not known yet");
}

}  // namespace
}  // namespace foldgrad::testing
