#include <cmath>

#include "ops/arithmetic/arithmetic.h"
#include "tests/models/transformer/by_hand.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

void check_gradients_of(const TransformerConfig& config) {
  Transformer model(config, 1, DType::f64);
  randomize(model, 10);
  check_gradients(model, translation_batch().named());
}

TEST(Transformer, GradientsWithPostNorm) {
  TransformerConfig config = tiny_config("ln", /*pre_norm=*/false);
  config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
  check_gradients_of(config);
}
TEST(Transformer, GradientsWithUnInItsWarmUp) {
  TransformerConfig config = tiny_config("un");
  config.normalizer_options = {{"warmup", "100"}};
  config.share_embeddings = "decoder";
  config.dropout = config.activation_dropout = 0.2;
  check_gradients_of(config);
}
TEST(Transformer, GradientsWithDeepNormAndTablesOfTheirOwn) {
  TransformerConfig config = tiny_config("deepnorm", /*pre_norm=*/false);
  config.share_embeddings = "none";
  config.activation = "silu";
  check_gradients_of(config);
}

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

// Logits of a training pass.
Tensor training_logits(Transformer& model, const TranslationBatch& batch, DType dtype = DType::f64) {
  Tape tape(/*recording=*/false);
  return model.logits(batch, {.tape = tape, .dtype = dtype, .training = true}).value();
}

TEST(Transformer, PaddingColumnsChangeNothing) {
  for (const char* normalizer : {"ln", "un", "bn"})
    for (bool masked : {true, false}) {
      TransformerConfig config = tiny_config(normalizer);
      config.mask_normalizers = masked;
      Transformer narrow(config, 1, DType::f64), wide(config, 1, DType::f64);
      randomize(narrow, 3), randomize(wide, 3);
      const Tensor a = training_logits(narrow, translation_batch()), b = training_logits(wide, translation_batch(2));
      if (!masked && std::string(normalizer) != "ln") {
        EXPECT_FALSE(close(b, a, 1e-3)) << normalizer << " counts padding";
        continue;
      }
      EXPECT_TRUE(masked ? identical(b, a) : close(b, a, 1e-12)) << normalizer;
      for (const auto& [name, tensor] : narrow.state()) EXPECT_TRUE(identical(wide.state().at(name), tensor)) << name;
    }
}

// As in the authors' code: rows that are padding count in the statistics of the first normalizer, where the encoder's
// are zero and the decoder's are the embedding of padding.
TEST(Transformer, PaddingAsDataCountsInStatistics) {
  const TranslationBatch batch = translation_batch();
  const auto running_variances = [&](bool masked) {
    TransformerConfig config = tiny_config("qmbn");
    config.normalizer_options = {{"alpha", "0"}};  // so that they are the batch's
    config.mask_normalizers = masked;
    Transformer model(config, 1, DType::f64);
    randomize(model, 3);
    training_logits(model, batch);
    return model.state();
  };
  const NamedTensors tokens = running_variances(true), all = running_variances(false);
  const Tensor got = all.at("encoder.layers.0.self_attn_layer_norm.run_var"),
               want = tokens.at("encoder.layers.0.self_attn_layer_norm.run_var").clone();
  for (std::int64_t c = 0; c < want.size(); ++c) want.data<double>()[c] *= 12. / 15;  // 3 rows of zeros beside 12
  EXPECT_TRUE(close(got, want, 1e-14));
}

// The rows that products see are the tokens of both sides, and nothing else.
TEST(Transformer, RowsComputedAreTokens) {
  Transformer model(tiny_config("un"), 1);
  const TranslationBatch batch = translation_batch(/*extra=*/2);  // 12 source and 9 target tokens
  Tape tape;
  std::map<std::int64_t, int> products;  // by their rows
  tape.observe([&](const Node& node, const Tensor& y) {
    if (node.name() == std::string("linear")) ++products[y.shape().without(-1).elements()];
  });
  tape.backward(model.loss(batch, {.tape = tape, .dtype = DType::f32, .training = true}, 0.1));
  // Encoder: four of attention, two of feed-forward, and the decoder's keys and values. Decoder: four, two, two more,
  // and the output.
  EXPECT_EQ(products, (std::map<std::int64_t, int>{{12, 8}, {9, 9}}));
}

// In any company the same logits, with normalizers of rows or of a sentence: bit for bit, but for OpenBLAS, whose
// products of f64 add in an order that depends on the number of rows.
TEST(Transformer, OtherSentencesChangeNothing) {
  for (const char* normalizer : {"ln", "rmsnorm", "instancenorm"})
    for (const Device device : devices())
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        TransformerConfig config = tiny_config(normalizer);
        config.width = 32, config.ffn_width = 16, config.heads = 1;
        Transformer model(config, 1, dtype == DType::f64 ? DType::f64 : DType::f32, device);
        const TranslationBatch batch = translation_batch();
        const Tensor all = training_logits(model, batch, dtype);
        std::int64_t first = 0;
        for (std::int64_t b = 0; b < 3; ++b) {
          const auto one = [&](const Tensor& t) { return t.slice(b, b + 1); };
          const Tensor alone = training_logits(
              model, {one(batch.source), one(batch.source_mask), one(batch.input), one(batch.input_mask), {}}, dtype);
          const std::int64_t next = first + alone.shape()[0];
          const bool blas = dtype == DType::f64 && device == Device::cpu;
          const Tensor among = all.slice(first, next);
          EXPECT_TRUE(blas ? close(among, alone, 1e-14) : identical(among, alone))
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
  EXPECT_GT(std::abs(sublayer.norm->residual_scale() - 1), 0.1);
  const Var sum = add(scale(x, sublayer.norm->residual_scale()), sublayer.out(branch, pass));
  EXPECT_TRUE(
      close(sublayer.join(branch, x, Segments({2}), pass).value(), sublayer.norm->apply(sum, {}).value(), 1e-14));
}

TEST(Transformer, EveryDropoutActsInTrainingAloneAndFollowsSeedAndStep) {
  const auto loss = [](const TransformerConfig& config, bool training, std::uint64_t seed, std::uint32_t step) {
    Transformer model(config, 1, DType::f64);
    Tape tape(/*recording=*/false);
    const ForwardPass pass{.tape = tape, .dtype = DType::f64, .training = training, .seed = seed, .step = step};
    return model.loss(translation_batch(), pass, 0.1).value().item();
  };
  const double without = loss(tiny_config(), true, 1, 1);
  for (double TransformerConfig::*key :
       {&TransformerConfig::dropout, &TransformerConfig::attention_dropout, &TransformerConfig::activation_dropout}) {
    TransformerConfig config = tiny_config();
    config.*key = 0.3;
    const double with = loss(config, true, 1, 1);
    EXPECT_GT(std::abs(with - without), 1e-3);
    EXPECT_EQ(with, loss(config, true, 1, 1));
    EXPECT_GT(std::abs(with - loss(config, true, 1, 2)), 1e-3);
    EXPECT_GT(std::abs(with - loss(config, true, 2, 1)), 1e-3);
    EXPECT_EQ(loss(config, false, 1, 1), without);  // ln does the same in training and inference
  }
}

// The table's padding row gets a gradient through the tied projection; the encoder must not see what becomes of it,
// also where statistics count padding.
TEST(Transformer, TRF_1_TheEncoderSeesNothingAtPadding) {
  TransformerConfig config = tiny_config("un");
  config.mask_normalizers = false;
  std::vector<Tensor> memories;
  for (double padding : {0.0, 7.0}) {
    Transformer model(config, 1, DType::f64);
    model.source_table().value.slice(1, 2).copy_from(Tensor::full({1, 8}, padding, DType::f64));
    Tape tape;
    const TranslationBatch batch = translation_batch();
    memories.push_back(encoded(model, batch, {.tape = tape, .dtype = DType::f64, .training = true}));
  }
  EXPECT_TRUE(identical(memories[0], memories[1]));
}

TEST(Transformer, CudaIsTheCpu) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const char* normalizer : {"ln", "un"}) {
    TransformerConfig config = tiny_config(normalizer);
    config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
    config.activation = "relu";
    config.encoder_layers = 2, config.decoder_layers = 3;
    Transformer cpu(config, 1, DType::f64), cuda(config, 1, DType::f64, Device::cuda);
    for (int step = 0; step < 2; ++step) {
      const double want = backward(cpu, translation_batch().named(), DType::f64),
                   got = backward(cuda, translation_batch(0, Device::cuda).named(), DType::f64);
      EXPECT_NEAR(got, want, 1e-11 * want) << normalizer;
    }
    const auto a = cpu.parameters(), b = cuda.parameters();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(b[i]->grad, a[i]->grad, 1e-10)) << a[i]->name;
    Transformer copy(config, 2, DType::f64);
    copy.copy_from(cuda);
    for (const auto& [name, tensor] : cpu.state()) EXPECT_TRUE(close(copy.state().at(name), tensor, 1e-10)) << name;
    EXPECT_NEAR(loss_of(copy, translation_batch().named(), false), loss_of(cpu, translation_batch().named(), false),
                1e-10);
  }
}

class EveryNormalizer : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryNormalizer, Trains) {
  for (bool pre_norm : {true, false}) {
    if (pre_norm && GetParam() == "deepnorm") continue;
    SCOPED_TRACE(pre_norm ? "pre-norm" : "post-norm");
    TransformerConfig config = tiny_config(GetParam(), pre_norm);
    config.normalizer_options = suitable_options(GetParam());
    config.encoder_layers = config.decoder_layers = 2;
    check_one_step([&](DType dtype) { return std::make_unique<Transformer>(config, 1, dtype); },
                   translation_batch().named());
  }
}
INSTANTIATE_TEST_SUITE_P(All, EveryNormalizer, ::testing::ValuesIn(normalizer_names()),
                         [](const auto& i) { return i.param; });

TEST(Transformer, RestoreRefusesWhatIsNotItsState) {
  Transformer model(tiny_config("un"), 1), other(tiny_config("ln"), 1);
  NamedTensors snapshot = model.snapshot();
  const auto error = [&] { return message_of([&] { model.restore(snapshot); }); };
  EXPECT_EQ(error(), "no error");
  snapshot["decoder.layer_norm.run_var"] = Tensor::zeros({4}, DType::f32);
  EXPECT_EQ(error(), "transformer: decoder.layer_norm.run_var of the saved state must be f32 [8], got f32 [4] on cpu");
  snapshot.erase("decoder.layer_norm.run_var");
  EXPECT_EQ(error(), "transformer: the saved state has no decoder.layer_norm.run_var");
  snapshot = model.snapshot();
  snapshot["x"] = Tensor::zeros({4}, DType::f32);
  EXPECT_EQ(error(), "transformer: the saved state has x, for which there is no place here");
  EXPECT_TRUE(other.state().empty());
}

}  // namespace
}  // namespace foldgrad::testing
