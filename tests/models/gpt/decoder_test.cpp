// Tests that decoding token by token, with cached keys and values, gives the same logits as passes over whole texts.
#include "models/gpt/decoder.h"

#include "tests/harness/op_spec.h"
#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {
namespace {

// Continues three texts of different lengths until the context is full, then replaces them with another text and does
// the same. Compares the logits of each step with a pass of `exact` over the whole texts.
void expect_steps_are_passes(Gpt& exact, Gpt& model, DType dtype, double tolerance) {
  GptDecoder decoder(model, dtype);
  for (std::vector<TokenIds> texts : {std::vector<TokenIds>{{3}, {1, 2, 0, 4}, {5, 6}}, {{2, 2}}}) {
    const std::int64_t room = 6 - longest(texts);
    Tensor logits = decoder.begin(texts);
    for (std::int64_t step = 0; step <= room; ++step) {
      EXPECT_EQ(logits.device(), model.device());
      EXPECT_TRUE(close(logits, following(exact, texts), tolerance)) << texts.size() << " texts, step " << step;
      ASSERT_EQ(decoder.room(), room - step);
      if (step == room) break;
      TokenIds tokens;
      for (TokenIds& text : texts) {
        tokens.push_back((3 * step + 2 * text.front() + 1) % 7);
        text.push_back(tokens.back());
      }
      logits = decoder.step(tokens);
    }
  }
}

// Only the order of summation differs. Folded models also have an output projection with a bias, and affine maps at
// some sites.
TEST(GptDecoder, StepsGiveWhatAPassOverTheWholeTextGives) {
  for (const std::string& normalizer : normalizer_names())
    for (const GptConfig& config : gpt_kinds(normalizer)) {
      const auto model = random_gpt(config);
      if (model->normalizers()[0]->mixes_tokens()) continue;
      for (const Device device : devices()) {
        SCOPED_TRACE(fmt::format("{} on {}", describe(config), name(device)));
        for (const auto& there : {model->copy(DType::f64, device), fold(*model).model->copy(DType::f64, device)})
          expect_steps_are_passes(*model, dynamic_cast<Gpt&>(*there), DType::f64, 1e-11);
      }
    }
}

// In f32, each of the four sublayers rounds about a dozen times, with errors of up to 6e-8; we saw differences of up to
// 2e-6. In bf16, weights and operands of matrix products have 8 significant bits, and their errors of about 2^-9 each
// add up like a random walk; we saw up to 0.05, for logits with a standard deviation of 1. A mistake in the computation
// would cause a far larger difference.
TEST(GptDecoder, LowerPrecisionIsClose) {
  for (const char* normalizer : {"ln", "un"})
    for (const GptConfig& config : gpt_kinds(normalizer)) {
      const auto exact = random_gpt(config);
      for (const Device device : devices()) {
        SCOPED_TRACE(fmt::format("{} on {}", describe(config), name(device)));
        Gpt model(config, 1, DType::f32, device);
        model.copy_from(*exact);
        EXPECT_EQ(GptDecoder(model, DType::bf16).begin({{1}}).dtype(), DType::f32);
        expect_steps_are_passes(*exact, model, DType::f32, 1e-5);
        expect_steps_are_passes(*exact, model, DType::bf16, 0.1);
      }
    }
}

TEST(GptDecoder, RefusesModelsThatItCannotRun) {
  Gpt model(tiny_gpt(), 1), exact(tiny_gpt(), 1, DType::f64), mixing(tiny_gpt("instancenorm"), 1);
  const auto error = [](Gpt& m, DType dtype) { return message_of([&] { GptDecoder(m, dtype); }); };
  EXPECT_EQ(error(model, DType::f64), "generation: a model of type f32 must run in f32 or bf16, got f64");
  EXPECT_EQ(error(exact, DType::f32), "generation: a model of type f64 must run in f64, got f32");
  EXPECT_EQ(error(mixing, DType::f32),
            "generation: h.0.ln_1 (instancenorm) computes statistics over all tokens of a sequence, but later tokens "
            "are not known yet");
}

TEST(GptDecoder, AfterWhatItRefusesItGoesOnAsBefore) {
  const auto model = random_gpt(tiny_gpt());
  GptDecoder decoder(*model, DType::f64);
  const auto begin_error = [&](const std::vector<TokenIds>& texts) {
    return message_of([&] { decoder.begin(texts); });
  };
  const auto step_error = [&](const TokenIds& tokens) { return message_of([&] { decoder.step(tokens); }); };
  EXPECT_EQ(decoder.room(), 6);
  EXPECT_EQ(step_error({1}),
            "generation: there must be at least one text, and exactly one token per text, got 0 texts and 1 tokens");
  EXPECT_EQ(step_error({}),
            "generation: there must be at least one text, and exactly one token per text, got 0 texts and 0 tokens");
  decoder.begin({{1, 2, 3, 4}, {5}});
  EXPECT_EQ(begin_error({}), "generation: there must be at least 1 text, got 0");
  EXPECT_EQ(begin_error({{1}, {}}), "generation: a text must have 1 to context = 6 tokens, got 0");
  EXPECT_EQ(begin_error({TokenIds(7, 1)}), "generation: a text must have 1 to context = 6 tokens, got 7");
  EXPECT_EQ(begin_error({{1}, {2, 7}}), "generation: ids must be in [0, 7), got 7");
  EXPECT_EQ(step_error({1}),
            "generation: there must be at least one text, and exactly one token per text, got 2 texts and 1 tokens");
  EXPECT_EQ(step_error({6, -1}), "generation: ids must be in [0, 7), got -1");
  EXPECT_EQ(decoder.room(), 2);
  EXPECT_TRUE(close(decoder.step({6, 0}), following(*model, {{1, 2, 3, 4, 6}, {5, 0}}), 1e-11));
  decoder.step({0, 0});
  EXPECT_EQ(step_error({0, 0}),
            "generation: a text and its continuation together must have at most context = 6 tokens");
}

}  // namespace
}  // namespace foldgrad::testing
