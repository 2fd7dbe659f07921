// Tests the families of Transformers (translation, GPT, ViT, CCT, T2T, Swin): training, gradients, agreement of CPU and
// CUDA, dropout, batches split among ranks, and folding.
#include "engine/contains.h"
#include "engine/parallel/team.h"
#include "tests/models/gpt/tiny_gpt.h"
#include "tests/models/images/kinds.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

template <class M>
class Families : public ::testing::Test {};
using All = ::testing::Types<Transformer, Gpt, Vit, Cct, T2t, Swin>;
TYPED_TEST_SUITE(Families, All);

TYPED_TEST(Families, TrainWithEveryNormalizer) {
  for (const std::string& normalizer : normalizer_names()) {
    const auto kinds = Kinds<TypeParam>::few(normalizer);
    // deepnorm requires post-norm, which some families do not support.
    constexpr bool only_pre_norm =
        std::is_same_v<TypeParam, Cct> || std::is_same_v<TypeParam, T2t> || std::is_same_v<TypeParam, Swin>;
    EXPECT_EQ(kinds.empty(), normalizer == "deepnorm" && only_pre_norm) << normalizer;
    for (auto config : kinds) {
      SCOPED_TRACE(describe(config));
      if constexpr (requires { config.kInitializations; })
        if (contains(config.kInitializations, std::string("pytorch"))) config.initialization = "pytorch";
      check_one_step([&](DType dtype) { return std::make_unique<TypeParam>(config, 1, dtype); },
                     Kinds<TypeParam>::inputs(config));
    }
  }
}

// un stays in its warm-up, where dx is exact. ReLU and max pooling have kinks, but with these random numbers no step of
// the difference quotients crosses one.
TYPED_TEST(Families, Gradients) {
  for (const char* normalizer : {"ln", "un", "deepnorm"})
    for (auto config : Kinds<TypeParam>::all(normalizer)) {
      SCOPED_TRACE(describe(config));
      config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
      if constexpr (requires { config.token_dropout; }) config.token_dropout = 0.3;
      if (config.normalizer == "un") config.normalizer_options = {{"warmup", "100"}};
      check_gradients_of<TypeParam>(config);
    }
}

TYPED_TEST(Families, CudaIsTheCpu) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const char* normalizer : {"ln", "un"})
    for (auto config : Kinds<TypeParam>::few(normalizer)) {
      SCOPED_TRACE(describe(config));
      config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
      if constexpr (std::is_base_of_v<TokenModelConfig, decltype(config)>) {
        for (const char* pooling : {"cls", "mean", "sequence"}) {
          config.pooling = pooling;
          check_cuda_is_cpu<TypeParam>(config, Kinds<TypeParam>::inputs(config));
        }
      } else {
        check_cuda_is_cpu<TypeParam>(config, Kinds<TypeParam>::inputs(config));
      }
    }
}

TYPED_TEST(Families, EveryDropoutActsInTrainingAloneAndFollowsSeedAndStep) {
  auto config = Kinds<TypeParam>::few("ln").front();
  config.dropout = config.attention_dropout = config.activation_dropout = 0;
  check_dropouts<TypeParam>(config, Kinds<TypeParam>::inputs(config));
}

// Checks that two ranks, each with half of a batch, compute the logits of the whole batch. For this, the ranks must use
// the random numbers and the statistics of the whole batch.
template <class M, class Config>
void check_parts_are_the_whole(const Config& config, const NamedTensors& inputs) {
  const auto logits = [&](const NamedTensors& part, Communicator* communicator) {
    const auto model = random_model<M>(config);
    Tape tape(/*recording=*/false);
    const ForwardPass pass{
        .tape = tape, .dtype = DType::f64, .training = true, .seed = 5, .step = 3, .communicator = communicator};
    return model->forward(part, pass).value().template values<double>();
  };
  std::vector<double> parts[2];
  Team({.ranks = 2}).run([&](Communicator& c) {
    const std::int64_t B = examples_in(inputs), r = c.rank();
    parts[c.rank()] = logits(part_of(inputs, B * r / 2, B * (r + 1) / 2), &c);
  });
  EXPECT_GT(parts[0].size(), 0u);
  parts[0].insert(parts[0].end(), parts[1].begin(), parts[1].end());
  const std::vector<double> whole = logits(inputs, nullptr);
  // On two ranks, statistics of channels add the same terms in another order.
  EXPECT_TRUE(close(Tensor::of({std::int64_t(parts[0].size())}, parts[0]),
                    Tensor::of({std::int64_t(whole.size())}, whole), 1e-11));
}

TYPED_TEST(Families, PartsOfABatchAreComputedAsInTheWhole) {
  for (const char* normalizer : {"ln", "bn", "un"})
    for (auto config : Kinds<TypeParam>::few(normalizer)) {
      SCOPED_TRACE(describe(config));
      config.dropout = config.attention_dropout = config.activation_dropout = config.drop_path = 0.3;
      config.ffn_width = 16;
      check_parts_are_the_whole<TypeParam>(config, Kinds<TypeParam>::inputs(config));
    }
}

TYPED_TEST(Families, PartsOfABatchNeedWidthsOfWholeBlocksOfPhilox) {
  auto config = Kinds<TypeParam>::few("ln").front();
  config.ffn_width = 12;
  EXPECT_EQ(message_of([&] { check_parts_are_the_whole<TypeParam>(config, Kinds<TypeParam>::inputs(config)); }),
            "parallel: on several ranks, the width of a layer must be a multiple of 8, got 12");
}

TYPED_TEST(Families, FoldingAFoldedModelChangesNothing) {
  for (const char* normalizer : {"bn", "un"})
    for (const auto& config : Kinds<TypeParam>::few(normalizer)) {
      SCOPED_TRACE(describe(config));
      const FoldedModel once = fold(*random_model<TypeParam>(config)), twice = fold(*once.model);
      EXPECT_EQ(dynamic_cast<TypeParam&>(*twice.model).config(), dynamic_cast<TypeParam&>(*once.model).config());
      const NamedTensors values = twice.model->values(), before = once.model->values();
      EXPECT_EQ(values.size(), before.size());
      for (const auto& [name, value] : before) EXPECT_TRUE(identical(values.at(name), value)) << name;
    }
}

// fold/model_test.cpp tests the translation Transformer.
template <class M>
class FoldFamilies : public ::testing::Test {};
using WithoutTranslation = ::testing::Types<Gpt, Vit, Cct, T2t, Swin>;
TYPED_TEST_SUITE(FoldFamilies, WithoutTranslation);

// Folding changes the order of summation. In f64, each sum has a rounding error of about 1e-16, and gains of up to 10
// magnify this error.
TYPED_TEST(FoldFamilies, GivesTheSameLogitsWithEveryNormalizer) {
  using Tied = FoldOptions::Tied;
  std::vector<Tied> choices{Tied::refuse};
  if (std::is_same_v<TypeParam, Gpt>) choices = {Tied::refuse, Tied::untie, Tied::keep};
  for (const std::string& normalizer : normalizer_names())
    for (const auto& config : Kinds<TypeParam>::all(normalizer))
      for (const Tied tied : choices)
        for (const bool rescale : {false, true}) {
          SCOPED_TRACE(fmt::format("{}, tied = {}{}", describe(config), int(tied), rescale ? ", rescaled" : ""));
          const auto model = random_model<TypeParam>(config);
          EXPECT_LE(folding_error(*model, Kinds<TypeParam>::inputs(config), {tied, rescale}).relative, 1e-12);
        }
}

}  // namespace
}  // namespace foldgrad::testing
