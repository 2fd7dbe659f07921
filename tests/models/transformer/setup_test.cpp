// Tests the construction of a Transformer: the names, number and initial values of its parameters, and the error
// messages for impossible configurations.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "models/blocks/random_fill.h"
#include "tests/models/spread.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

TransformerConfig iwslt(std::int64_t source, std::int64_t target) {
  TransformerConfig config;
  config.source_vocabulary = source, config.target_vocabulary = target;
  return config;
}

// Checks the numbers of parameters of fairseq's transformer_iwslt_de_en: pre-norm with one shared table, and post-norm
// with separate vocabularies.
TEST(TransformerSetup, HasFairseqsNumberOfParameters) {
  const auto count = [](const TransformerConfig& config) { return Transformer(config, 1).parameter_count(); };
  EXPECT_EQ(count(iwslt(10152, 10152)), 36743168);
  EXPECT_EQ(31545344 + 512 * 10152, 36743168);
  TransformerConfig separate = iwslt(8848, 6632);
  separate.share_embeddings = "decoder";
  separate.pre_norm = false;
  EXPECT_EQ(count(separate), 39469056);
}

TEST(TransformerSetup, NamesAreFairseqs) {
  TransformerConfig config = tiny_config();
  config.share_embeddings = "none";
  Transformer model(config, 1);
  std::vector<std::string> names;
  for (Parameter* p : model.parameters()) names.push_back(p->name);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const char* name :
       {"encoder.embed_tokens.weight", "encoder.layers.0.self_attn.q_proj.weight",
        "encoder.layers.0.self_attn.out_proj.bias", "encoder.layers.0.self_attn_layer_norm.weight",
        "encoder.layers.0.fc1.weight", "encoder.layers.0.final_layer_norm.bias", "encoder.layer_norm.weight",
        "decoder.layers.0.encoder_attn.k_proj.weight", "decoder.layers.0.encoder_attn_layer_norm.weight",
        "decoder.layers.0.fc2.bias", "decoder.embed_tokens.weight", "decoder.output_projection.weight"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_EQ(model.normalizers().size(), 7u);
}

TEST(TransformerSetup, ThereAre32SitesInTheDefaultModel) {
  TransformerConfig config = tiny_config("un");
  config.encoder_layers = config.decoder_layers = 6;
  Transformer model(config, 1);
  EXPECT_EQ(model.normalizers().size(), 32u);
  EXPECT_EQ(model.state().size() % 32, 0u);
  EXPECT_TRUE(model.state().count("decoder.layers.5.encoder_attn_layer_norm.run_var"));
}

// The test vectors are from the authors of FNV-1a.
TEST(TransformerSetup, StreamsAreHashesOfNames) {
  EXPECT_EQ(random_stream(""), 0x811C9DC5u);
  EXPECT_EQ(random_stream("a"), 0xE40C292Cu);
  EXPECT_EQ(random_stream("foobar"), 0xBF9CF968u);
}

TEST(TransformerSetup, BeginsAsFairseqDoes) {
  TransformerConfig config = iwslt(2000, 2000);
  config.encoder_layers = config.decoder_layers = 1;
  Transformer model(config, 1);
  const auto uniform = [&](const std::string& name, double bound) {
    SCOPED_TRACE(name);
    expect_uniform(model.values().at(name), bound);
  };
  for (const std::string block :
       {"encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.encoder_attn"}) {
    for (const char* projection : {".q_proj", ".k_proj", ".v_proj"}) {
      uniform(block + projection + ".weight", std::sqrt(3. / 1024));
      uniform(block + projection + ".bias", std::sqrt(1. / 512));
    }
    uniform(block + ".out_proj.weight", std::sqrt(6. / 1024));
    EXPECT_EQ(spread(model.values().at(block + ".out_proj.bias")).greatest, 0);
  }
  for (const char* layer : {"encoder.layers.0", "decoder.layers.0"})
    for (const char* kind : {".weight", ".bias"}) {
      uniform(std::string(layer) + ".fc1" + kind, std::sqrt(1. / 512));
      uniform(std::string(layer) + ".fc2" + kind, std::sqrt(1. / 1024));
    }
  const Tensor& table = model.source_table().value;
  EXPECT_EQ(spread(table.slice(1, 2)).greatest, 0);
  expect_normal(table.slice(2, 2000), std::sqrt(1. / 512));
  EXPECT_GT(spread(table).greatest, 4.2 * std::sqrt(1. / 512));  // about one of 40,000 normal numbers is larger
}

// Returns the ratio of our weights to those that fairseq's initialization draws for the same name and seed. Checks that
// all elements have this ratio.
double factor(Transformer& model, Transformer& fairseq, const std::string& name) {
  const std::vector<double> ours = model.values().at(name).values<double>(),
                            theirs = fairseq.values().at(name).values<double>();
  const double ratio = ours[0] / theirs[0];
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], ratio * theirs[i], 1e-15) << name;
  return ratio;
}

TEST(TransformerSetup, TFixupScalesAsPublished) {
  TransformerConfig config = tiny_config("none");
  config.encoder_layers = config.decoder_layers = 6;
  config.share_embeddings = "decoder";
  Transformer fairseq(config, 1, DType::f64);
  config.initialization = "tfixup";
  Transformer tfixup(config, 1, DType::f64);
  config.tfixup_scope = "all";
  Transformer all(config, 1, DType::f64);
  const double encoder = 0.42809, decoder = 0.36889, tolerance = 1e-5;  // N = 6, as published
  const auto check = [&](const std::string& block, double f) {
    EXPECT_NEAR(factor(tfixup, fairseq, block + ".v_proj.weight"), f * std::sqrt(2), 2 * tolerance) << block;
    EXPECT_NEAR(factor(tfixup, fairseq, block + ".out_proj.weight"), f, tolerance) << block;
    for (const char* projection : {".q_proj.weight", ".k_proj.weight"}) {
      EXPECT_NEAR(factor(tfixup, fairseq, block + projection), 1, 1e-15) << block;
      EXPECT_NEAR(factor(all, fairseq, block + projection), f * std::sqrt(2), 2 * tolerance) << block;
    }
    for (const char* bias : {".q_proj.bias", ".k_proj.bias", ".v_proj.bias", ".out_proj.bias"})
      EXPECT_EQ(spread(tfixup.values().at(block + bias)).greatest, 0) << block;
  };
  check("encoder.layers.3.self_attn", encoder);
  check("decoder.layers.0.self_attn", decoder);
  check("decoder.layers.5.encoder_attn", decoder);
  EXPECT_NEAR(factor(tfixup, fairseq, "encoder.embed_tokens.weight"), decoder, tolerance);
  EXPECT_NEAR(factor(tfixup, fairseq, "decoder.embed_tokens.weight"), decoder, tolerance);
  const double xavier = std::sqrt(6.0 / (8 + 12)), in = 1 / std::sqrt(8.0);
  EXPECT_NEAR(factor(tfixup, fairseq, "encoder.layers.2.fc1.weight"), encoder * xavier / in, 2 * tolerance);
  EXPECT_EQ(spread(tfixup.values().at("encoder.layers.2.fc1.bias")).greatest, 0);
}

// Xavier's bounds treat [q; k; v] and [k; v] as one matrix each: sqrt(6 / (4 width)) and sqrt(6 / (3 width)).
TEST(TransformerSetup, XavierTakesPackedMatrices) {
  TransformerConfig config = tiny_config("none");
  Transformer fairseq(config, 1, DType::f64);
  config.initialization = "xavier";
  Transformer xavier(config, 1, DType::f64);
  const auto check = [&](const std::string& name, double want) {
    EXPECT_NEAR(factor(xavier, fairseq, name), want, 1e-12) << name;
  };
  for (const char* block : {"encoder.layers.0.self_attn", "decoder.layers.0.self_attn"})
    for (const char* projection : {".q_proj.weight", ".k_proj.weight", ".v_proj.weight", ".out_proj.weight"})
      check(std::string(block) + projection, 1);
  check("decoder.layers.0.encoder_attn.q_proj.weight", std::sqrt(2));
  check("decoder.layers.0.encoder_attn.k_proj.weight", std::sqrt(4.0 / 3));
  check("decoder.layers.0.encoder_attn.v_proj.weight", std::sqrt(4.0 / 3));
  check("encoder.layers.0.fc1.weight", std::sqrt(6.0 / (8 + 12)) * std::sqrt(8.0));
  for (const char* bias : {".self_attn.v_proj.bias", ".encoder_attn.q_proj.bias", ".fc1.bias", ".fc2.bias"})
    EXPECT_EQ(spread(xavier.values().at(std::string("decoder.layers.0") + bias)).greatest, 0) << bias;
}

TEST(TransformerSetup, DeepNormScalesValuesOutputsAndFeedForward) {
  TransformerConfig config = tiny_config("ln", /*pre_norm=*/false);
  config.encoder_layers = 3, config.decoder_layers = 2;
  Transformer plain(config, 1, DType::f64);
  config.normalizer = "deepnorm";
  Transformer deep(config, 1, DType::f64);
  const double encoder = 0.87 / std::pow(81. * 2, 1. / 16), decoder = std::pow(12. * 2, -0.25);
  for (const char* name : {".self_attn.v_proj.weight", ".self_attn.out_proj.weight", ".fc1.weight", ".fc2.weight"}) {
    EXPECT_NEAR(factor(deep, plain, std::string("encoder.layers.2") + name), encoder, 1e-12);
    EXPECT_NEAR(factor(deep, plain, std::string("decoder.layers.1") + name), decoder, 1e-12);
  }
  for (const char* name : {".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".fc1.bias"})
    EXPECT_EQ(factor(deep, plain, std::string("encoder.layers.2") + name), 1);
}

TEST(TransformerSetup, SeedsDecideAndPrecisionDoesNot) {
  Transformer a(tiny_config(), 1), same(tiny_config("un"), 1), other(tiny_config(), 2),
      exact(tiny_config(), 1, DType::f64);
  const std::string name = "encoder.layers.0.fc1.weight";
  EXPECT_TRUE(identical(a.values().at(name), same.values().at(name)));
  EXPECT_FALSE(identical(a.values().at(name), other.values().at(name)));
  EXPECT_TRUE(identical(a.values().at(name), exact.values().at(name).to(DType::f32)));
}

TEST(TransformerSetup, TheSmallestOfEverySizeIsAccepted) {
  TransformerConfig config;
  config.width = 4;
  config.source_vocabulary = config.encoder_layers = config.decoder_layers = 1;
  config.ffn_width = config.heads = config.max_positions = 1;
  config.target_vocabulary = kEos + 1;
  config.pad = 0;
  config.share_embeddings = "none";
  Transformer model(config, 1, DType::f64);
  for (const NamedTensors& inputs : {model.smallest_inputs(), model.random_inputs(1)}) {
    const Tensor logits = inference_logits(model, inputs, DType::f64);
    EXPECT_EQ(logits.shape(), Shape({examples_in(inputs), 3}));
    EXPECT_EQ(inputs.at("source").size(), examples_in(inputs));
    for (double z : logits.values<double>()) EXPECT_TRUE(std::isfinite(z));
  }
}

TEST(TransformerSetup, MessagesNameTheKey) {
  const auto error = [](auto change) { return refusal<Transformer>(tiny_config(), change); };
  EXPECT_EQ(error([](auto& c) { c.heads = 3; }), "transformer: heads must divide width = 8, got 3");
  EXPECT_EQ(error([](auto& c) { c.width = 7; }), "transformer: width must be even and at least 4, got 7");
  EXPECT_EQ(error([](auto& c) { c.width = 512, c.heads = 2; }),
            "transformer: heads must be at least 4 so that each has at most 128 of 512 channels, got 2");
  EXPECT_EQ(error([](auto& c) { c.encoder_layers = 0; }), "transformer: encoder_layers must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.attention_dropout = 1; }), "transformer: attention_dropout must be in [0, 1), got 1");
  EXPECT_EQ(error([](auto& c) { c.pad = 11; }), "transformer: pad must be an id in [0, 11), got 11");
  EXPECT_EQ(error([](auto& c) { c.activation = "rleu"; }),
            fmt::format("transformer: activation must be one of {}, got \"rleu\"",
                        fmt::join(BlockConfig::activation_names(), ", ")));
  EXPECT_EQ(error([](auto& c) { c.share_embeddings = "some"; }),
            "transformer: share_embeddings must be one of all, decoder, none, got \"some\"");
  EXPECT_EQ(error([](auto& c) { c.target_vocabulary = 12; }),
            "transformer: share_embeddings = all needs target_vocabulary = source_vocabulary = 11, got 12");
  EXPECT_EQ(
      error([](auto& c) { c.normalizer_at["encoder.layer_nrom"] = "affine"; }),
      "transformer: normalizer_at: there is no site \"encoder.layer_nrom\"; did you mean \"encoder.layer_norm\"?");
  EXPECT_EQ(error([](auto& c) { c.normalizer = "deepnorm"; }),
            "transformer: pre_norm must be off with normalizer = deepnorm, which works only with post-norm");
  EXPECT_EQ(error([](auto& c) { c.normalizer_options["epps"] = "1"; }),
            "ln: there is no option \"epps\"; did you mean \"eps\"? Its options are: eps");
  Transformer model(tiny_config(), 1, DType::f32);
  Tape tape;
  const ForwardPass pass{.tape = tape, .dtype = DType::f32};
  EXPECT_EQ(message_of([&] { model.placed("encoder", Sentences::of({Ids(13)}), pass); }),
            "encoder: sentences must have at most max_positions = 12 tokens, got 13");
  NamedTensors inputs = translation_batch().named();
  inputs["source_lengths"] = inputs["input_lengths"];
  EXPECT_EQ(message_of([&] { model.forward(inputs, pass); }),
            "transformer: source must be [9] according to source_lengths, got [12]");
  inputs = translation_batch().named();
  inputs.erase("input_lengths");
  EXPECT_EQ(message_of([&] { model.forward(inputs, pass); }), "transformer: the input \"input_lengths\" is missing");
}

}  // namespace
}  // namespace foldgrad::testing
