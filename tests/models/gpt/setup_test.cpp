// Tests the construction of a decoder-only Transformer: the names, sizes and initial values of its parameters, and the
// error messages for impossible configurations.
#include <algorithm>

#include "tests/models/gpt/tiny_gpt.h"
#include "tests/models/spread.h"

namespace foldgrad::testing {
namespace {

// For its model of 65 characters, nanoGPT prints 10.65M. This model has no biases, and the count leaves out positions.
// Each of six layers has 384 (1152 + 384 + 2 * 1536) weights and 2 * 384 gains. With the 384 gains of the last
// normalizer and 65 * 384 embeddings, the sum is 10,646,784. Our model adds 6 (1152 + 384 + 1536 + 384 + 2 * 384) + 384
// biases and 256 * 384 positions.
TEST(GptSetup, TheModelOfCharactersHasNanoGptsParameters) {
  GptConfig config;
  config.vocabulary = 65;
  Gpt model(config, std::nullopt);
  EXPECT_EQ(model.parameter_count(), 10646784 + 25728 + 98304);
  EXPECT_EQ(model.normalizers().size(), 13u);
}

// Each of 3 layers has 4 * 64^2 + 3 * 64 * 256 weights and 2 * 64 gains. The input table and the output table have 65 *
// 64 numbers each, and the last normalizer has 64 gains. The inner width, 256, is 8/3 * 64, rounded up to a multiple of
// 256. The model with dyt also has an alpha at each of seven sites and a learned factor for the embeddings.
TEST(GptSetup, LlamasFormHasItsParameters) {
  for (const auto& [normalizer, count] : {std::pair("rmsnorm", 205376), {"dyt", 205384}}) {
    GptConfig config = tiny_llama(normalizer);
    config.vocabulary = 65, config.width = 64, config.ffn_width = 256, config.heads = 4, config.layers = 3;
    config.scaled_embedding = config.normalizer == "dyt";
    if (config.scaled_embedding) config.normalizer_options = {{"bias", "0"}};
    EXPECT_EQ(Gpt(config, std::nullopt).parameter_count(), count) << normalizer;
  }
}

TEST(GptSetup, LlamasFormBeginsWithEqualDeviationsAndAnAlphaByPlace) {
  GptConfig config = tiny_llama("dyt");
  config.vocabulary = 50, config.width = 96, config.ffn_width = 256, config.layers = 8;
  config.normalizer_options = {{"alpha", "0.2"}, {"attention_alpha", "0.8"}, {"bias", "0"}};
  const NamedTensors p = Gpt(config, 1).values();
  for (const auto& [name, value] : p)
    if (value.shape().rank() == 2) expect_normal(value, 0.02);
  EXPECT_FALSE(p.contains("h.7.mlp.c_gate.bias"));
  EXPECT_EQ(p.at("wte.scale").item(), std::sqrt(96.f));
  EXPECT_EQ(p.at("h.7.ln_1.alpha").item(), 0.8f);
  EXPECT_EQ(p.at("h.7.ln_2.alpha").item(), 0.2f);
  EXPECT_EQ(p.at("ln_f.alpha").item(), 0.2f);
}

TEST(GptSetup, NamesAndShapesAreNanoGpts) {
  GptConfig config = tiny_gpt();
  config.layers = 1;
  const Parameters layer{
      {"h.0.attn.c_attn.weight", {24, 8}}, {"h.0.attn.c_attn.bias", {24}}, {"h.0.attn.c_proj.weight", {8, 8}},
      {"h.0.attn.c_proj.bias", {8}},       {"h.0.ln_1.weight", {8}},       {"h.0.ln_1.bias", {8}},
      {"h.0.mlp.c_fc.weight", {12, 8}},    {"h.0.mlp.c_fc.bias", {12}},    {"h.0.mlp.c_proj.weight", {8, 12}},
      {"h.0.mlp.c_proj.bias", {8}},        {"h.0.ln_2.weight", {8}},       {"h.0.ln_2.bias", {8}}};
  const auto with = [&](Parameters all, const Parameters& last) {
    all.insert(all.end(), layer.begin(), layer.end());
    all.insert(all.end(), last.begin(), last.end());
    return all;
  };
  EXPECT_EQ(parameters_of(Gpt(config, 1)),
            with({{"wte.weight", {7, 8}}, {"wpe.weight", {6, 8}}}, {{"ln_f.weight", {8}}, {"ln_f.bias", {8}}}));
  config.tied = config.pre_norm = false, config.output_bias = true, config.positions = "sinusoidal";
  EXPECT_EQ(parameters_of(Gpt(config, 1)),
            with({{"wte.weight", {7, 8}}}, {{"lm_head.weight", {7, 8}}, {"lm_head.bias", {7}}}));
}

TEST(GptSetup, ClippingAndWeightDecayKnowWhatIsProjectionAndWhatIsPosition) {
  const auto names = [](const std::vector<Parameter*>& parameters) {
    std::vector<std::string> all;
    for (const Parameter* p : parameters) all.push_back(p->name);
    return all;
  };
  GptConfig config = tiny_gpt();
  EXPECT_EQ(names(Gpt(config, 1).output_parameters()), std::vector<std::string>{"wte.weight"});
  for (const std::int64_t context : {6, 1}) {
    config.context = context;
    Gpt model(config, 1);
    const std::vector<std::string> vectors = names(model.vectors());
    EXPECT_EQ(std::ranges::count(vectors, "wpe.weight"), 1);
    EXPECT_EQ(vectors.size(), 1 + 2 * 8u + 2);  // wpe; four biases and two normalizers per layer; ln_f
    EXPECT_EQ(std::ranges::count(vectors, "wte.weight"), 0);
  }
  config.tied = false, config.output_bias = true;
  EXPECT_EQ(names(Gpt(config, 1).output_parameters()), (std::vector<std::string>{"lm_head.weight", "lm_head.bias"}));
}

GptConfig larger(const std::string& normalizer, bool pre_norm) {
  GptConfig config = tiny_gpt(normalizer, pre_norm);
  config.vocabulary = 50, config.context = 40, config.layers = 8, config.width = 96, config.ffn_width = 192;
  config.tied = false, config.output_bias = true;
  return config;
}

TEST(GptSetup, BeginsAsNanoGptDoes) {
  const NamedTensors p = Gpt(larger("ln", /*pre_norm=*/true), 1).values();
  for (const char* name :
       {"wte.weight", "wpe.weight", "lm_head.weight", "h.0.attn.c_attn.weight", "h.7.mlp.c_fc.weight"})
    expect_normal(p.at(name), 0.02);
  for (const char* name : {"h.7.attn.c_proj.weight", "h.0.mlp.c_proj.weight"})
    expect_normal(p.at(name), 0.02 / std::sqrt(16));
  for (const auto& [name, value] : p) {
    if (name.ends_with("bias")) {
      EXPECT_EQ(spread(value).greatest, 0) << name;
    } else if (name.find("ln_") != name.npos) {
      EXPECT_EQ(value.values<float>(), std::vector<float>(96, 1)) << name;
    }
  }
}

TEST(GptSetup, DeepNormScalesValuesOutputsAndFeedForward) {
  const NamedTensors p = Gpt(larger("deepnorm", /*pre_norm=*/false), 1).values();
  const double gain = std::pow(64, -0.25);  // (8 N)^(-1/4) for a single stack of N = 8 layers
  expect_normal(p.at("h.3.attn.c_attn.weight").slice(0, 192), 0.02);
  for (const Tensor& t : {p.at("h.3.attn.c_attn.weight").slice(192, 288), p.at("h.0.mlp.c_fc.weight")})
    expect_normal(t, gain * 0.02);
  for (const char* name : {"h.7.attn.c_proj.weight", "h.0.mlp.c_proj.weight"})
    expect_normal(p.at(name), gain * 0.02 / std::sqrt(16));
}

TEST(GptSetup, TheSmallestOfEverySizeIsAccepted) {
  GptConfig config = tiny_gpt();
  config.width = 4;
  config.vocabulary = config.context = config.layers = config.ffn_width = config.heads = 1;
  for (const char* positions : {"learned", "sinusoidal"}) {
    config.positions = positions;
    Gpt model(config, 1, DType::f64);
    for (const auto& [inputs, sequences] : {std::pair(model.smallest_inputs(), 1), {model.random_inputs(1), 8}}) {
      const Tensor logits = inference_logits(model, inputs, DType::f64);
      EXPECT_EQ(logits.shape(), (Shape{sequences, 1}));
      for (const double z : logits.values<double>()) EXPECT_TRUE(std::isfinite(z));
    }
  }
}

TEST(GptSetup, RefusesWhatCannotBe) {
  const auto error = [](auto change) { return refusal<Gpt>(tiny_gpt(), change); };
  EXPECT_EQ(error([](auto&) {}), "no error");
  EXPECT_EQ(error([](auto& c) { c.vocabulary = 0; }), "gpt: vocabulary must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.layers = 0; }), "gpt: layers must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.context = -1; }), "gpt: context must be at least 1, got -1");
  EXPECT_EQ(error([](auto& c) { c.width = 9; }), "gpt: width must be even and at least 4, got 9");
  EXPECT_EQ(error([](auto& c) { c.width = 2; }), "gpt: width must be even and at least 4, got 2");
  EXPECT_EQ(error([](auto& c) { c.heads = 3; }), "gpt: heads must divide width = 8, got 3");
  EXPECT_EQ(error([](auto& c) { c.dropout = 1; }), "gpt: dropout must be in [0, 1), got 1");
  EXPECT_EQ(error([](auto& c) { c.positions = "alibi"; }),
            "gpt: positions must be one of learned, sinusoidal, rotary, got \"alibi\"");
  EXPECT_EQ(error([](auto& c) { c.positions = "rotary", c.heads = 8; }),
            "gpt: with positions = rotary, each head must have an even number of channels, as with heads = 1 for width "
            "= 8, got heads = 8");
  EXPECT_EQ(error([](auto& c) { c.positions = "rotary", c.width = 250, c.heads = 2; }),
            "gpt: with positions = rotary, each head must have an even number of channels, as with heads = 5 for width "
            "= 250, got heads = 2");
  EXPECT_EQ(error([](auto& c) { c.positions = "rotary", c.rotary_theta = -1; }),
            "gpt: rotary_theta must be a number above 0, such as 10000, got -1");
  EXPECT_EQ(error([](auto& c) { c.normalizer = "deepnorm"; }),
            "gpt: pre_norm must be off with normalizer = deepnorm, which works only with post-norm");
  EXPECT_EQ(error([](auto& c) { c.normalizer_at["h.0.ln_1"] = "deepnorm"; }),
            "gpt: pre_norm must be off with h.0.ln_1 = deepnorm, which works only with post-norm");
  EXPECT_EQ(error([](auto& c) { c.normalizer_at["h.0.ln_3"] = "none"; }),
            "gpt: normalizer_at: there is no site \"h.0.ln_3\"; did you mean \"h.0.ln_1\"?");
}

TEST(GptSetup, RefusesInputsThatAreNoSequences) {
  Gpt model(tiny_gpt(), 1);
  const auto error = [&](const NamedTensors& inputs) {
    Tape tape;
    return message_of([&] { model.loss(inputs, {.tape = tape, .dtype = DType::f32}, 0); });
  };
  const Tensor ids = Tensor::zeros({2, 3}, DType::i64);
  EXPECT_EQ(error({{"ids", ids}, {"target", ids}}), "no error");
  EXPECT_EQ(error({}), "gpt: the input \"ids\" is missing");
  EXPECT_EQ(error({{"ids", ids}}), "gpt: the input \"target\" is missing");
  EXPECT_EQ(error({{"ids", ids.reshape({6})}}), "gpt: ids must be i64 [B, T], got i64 [6] on cpu");
  EXPECT_EQ(error({{"ids", ids}, {"target", ids.to(DType::i32)}}),
            "gpt: target must be i64 [B, T], got i32 [2, 3] on cpu");
  for (const std::int64_t tokens : {0, 7})
    EXPECT_EQ(error({{"ids", Tensor::zeros({1, tokens}, DType::i64)}}),
              fmt::format("gpt: sequences must have 1 to context = 6 tokens, got ids [1, {}]", tokens));
}

}  // namespace
}  // namespace foldgrad::testing
