// Tests that folded Transformers give the logits of the originals, for random models with every normalizer. Also tests
// which maps remain at each site.
#include "tests/harness/properties.h"
#include "tests/models/transformer/random_transformer.h"

namespace foldgrad::testing {
namespace {

using Tied = FoldOptions::Tied;
using Outcome = SiteReport::Outcome;

bool all_folded(const FoldedModel& folded) {
  return std::all_of(folded.reports.begin(), folded.reports.end(),
                     [](const SiteReport& r) { return r.outcome == Outcome::folded; });
}

Difference folding_error_without_tape(Transformer& model, const FoldOptions& options, const TranslationBatch& batch) {
  const FoldedModel folded = fold(model, options);
  return difference(logits_by_steps(InferenceTransformer(transformer_of(folded), model.dtype()), batch),
                    logits_by_steps(InferenceTransformer(model, model.dtype()), batch));
}

FoldOptions random_options() {
  const std::string tied = *rc::gen::element<std::string>("refuse", "untie", "keep").as("tied");
  return {tied == "refuse"  ? Tied::refuse
          : tied == "untie" ? Tied::untie
                            : Tied::keep,
          *rc::gen::element(false, true).as("rescale_stream")};
}

std::vector<std::string> names(bool offline) {
  std::vector<std::string> all;
  for (const NormalizerInfo& info : normalizers())
    if (info.offline() == offline) all.push_back(info.name);
  return all;
}

void check_difference(bool offline, DType dtype, double useful) {
  const std::string normalizer = *rc::gen::elementOf(names(offline)).as("normalizer");
  TransformerConfig config =
      random_config(normalizer, normalizer != "deepnorm" && *rc::gen::element(false, true).as("pre_norm"));
  if (normalizer == "groupnorm" || normalizer == "pn") config.normalizer_options = {{"groups", "2"}};
  const auto model = random_transformer(config, dtype);
  const FoldOptions options = random_options();
  // The matrix library takes long to prepare each new size in f32, so the batch is fixed.
  const TranslationBatch batch = dtype == DType::f64 ? random_batch() : translation_batch();
  const Difference d = folding_error(*model, batch.named(), options);
  if (offline && (config.pre_norm || options.rescale_stream) && normalizer != "centernorm" && normalizer != "none")
    RC_ASSERT(all_folded(fold(*model, options)) == (options.tied == Tied::untie || config.own_output_table()));
  const double tolerance = folding_tolerance(*model, batch, dtype);
  RC_LOG() << normalizer << ", relative difference " << d.relative << ", tolerance " << tolerance << "\n";
  RC_ASSERT(d.relative <= tolerance);
  // For badly conditioned models, the tolerance is so large that the test would say little. We discard such models, and
  // RapidCheck draws others.
  RC_PRE(tolerance <= useful);
  // frozen_statistics_test.cpp tests inference in f32 without a tape, with only a few sizes.
  if (offline && dtype == DType::f64)
    RC_ASSERT(folding_error_without_tape(*model, options, batch).relative <= tolerance);
}

// Each of the four tests checks 100 random models with gains from 1e-3 to 1e3. It discards models with tolerances above
// 1e-11 in f64 or 5e-3 in f32. In 42,000 such models, the median tolerance was 2e-14 in f64 and 1e-5 in f32, and no
// difference exceeded 0.15 of its tolerance.
RC_GTEST_PROP(FoldTransformer, FOLD_1_FOLD_2_FOLD_4_FOLD_5_OfflineInF64, ()) {
  check_difference(/*offline=*/true, DType::f64, 1e-11);
}
RC_GTEST_PROP(FoldTransformer, OfflineInF32, ()) { check_difference(/*offline=*/true, DType::f32, 5e-3); }
RC_GTEST_PROP(FoldTransformer, OnlineInF64, ()) { check_difference(/*offline=*/false, DType::f64, 1e-11); }
RC_GTEST_PROP(FoldTransformer, OnlineInF32, ()) { check_difference(/*offline=*/false, DType::f32, 5e-3); }

// Checks that random gains span the range on which the tests above rely.
TEST(FoldTransformer, RandomGainsReachSixOrdersOfMagnitude) {
  for (const std::string& normalizer : names(/*offline=*/true))
    for (bool pre_norm : {true, false}) {
      if (normalizer == "none") continue;
      std::vector<double> gains;
      for (unsigned seed = 1; seed <= 8; ++seed) {
        TransformerConfig config = tiny_config(normalizer, pre_norm);
        config.encoder_layers = config.decoder_layers = 2;
        Transformer model(config, 1);
        randomize(model, seed, 0.15);
        randomize_gains(model, seed);
        for (const Normalizer* norm : model.normalizers()) {
          const InferenceForm form = *norm->inference();
          for (double A : form.map.A) gains.push_back(std::abs(A));
        }
      }
      const auto [least, greatest] = std::minmax_element(gains.begin(), gains.end());
      // repbn and prepbn add eta = 1e-3 to A, so the smallest gains are larger.
      const double orders = normalizer == "repbn" || normalizer == "prepbn" ? 5 : 5.5;
      EXPECT_GE(std::log10(*greatest / *least), pre_norm ? orders + 0.3 : orders - 0.5) << normalizer;
      for (double decade = -2; decade <= 2; ++decade)  // every decade must occur
        EXPECT_GT(
            std::count_if(gains.begin(), gains.end(),
                          [&](double A) { return A > std::pow(10, decade - 0.5) && A < std::pow(10, decade + 0.5); }),
            20)
            << normalizer << " around 1e" << decade;
    }
}

// Makes every A a power of two, half of them negative, and every B zero.
void make_powers_of_two(Transformer& model) {
  const auto power = [](double base, const Tensor& exponents, std::int64_t c) {
    return std::pow(base, double(exponents.data<std::int64_t>()[c] - 2));
  };
  unsigned seed = 0;
  for (Normalizer* norm : model.normalizers()) {
    const std::int64_t C = norm->channels();
    const Tensor gain = Tensor::empty({C}, DType::f64), variance = gain.clone(), exponents = random_ids({C}, 5, ++seed);
    for (std::int64_t c = 0; c < C; ++c) {
      gain.data<double>()[c] = (c % 2 ? -1 : 1) * power(2, exponents, C - 1 - c);
      variance.data<double>()[c] = power(4, exponents, c);
      if (norm->info().name != "rbn") variance.data<double>()[c] -= std::pow(2.0, -16);  // eps
    }
    for (Parameter* p : norm->parameters()) {
      if (p->name.ends_with("weight"))
        p->value.copy_from(gain.to(p->value.dtype()));
      else
        p->value.zero();
    }
    for (auto&& [name, tensor] : norm->state())
      if (name == "run_var" || name == "phi") tensor.copy_from(variance.to(tensor.dtype()));
  }
}

TransformerConfig config_of_powers(const std::string& normalizer, bool pre_norm) {
  TransformerConfig config = tiny_config(normalizer, pre_norm);
  config.encoder_layers = config.decoder_layers = 2;
  for (const NormalizerInfo& info : normalizers())
    for (const NormalizerOption& option : info.options)
      if (info.name == normalizer && option.name == "eps")
        config.normalizer_options = {{"eps", "1.52587890625e-05"}};  // 2^-16
  return config;
}

void expect_the_same_bits(Transformer& model, const FoldOptions& options) {
  const TranslationBatch batch = translation_batch();
  const FoldedModel folded = fold(model, options);
  const auto by_tape = [&](Model& m) { return inference_logits(m, batch.named(), model.dtype()); };
  const auto without = [&](Transformer& m) { return logits_by_steps(InferenceTransformer(m, model.dtype()), batch); };
  EXPECT_TRUE(identical(by_tape(*folded.model), by_tape(model)));
  EXPECT_TRUE(identical(without(transformer_of(folded)), without(model)));
}

// Multiplying by a power of two does not round. So only sums round, and folding keeps the order of their terms. When
// the stream is rescaled, folding keeps the order only if linear layers have no biases. We exclude centernorm, since
// folding subtracts a mean from the weights.
TEST(FoldTransformer, PowersOfTwoAndNoBiasAreFoldedBitForBit) {
  for (const std::string& normalizer : names(/*offline=*/true))
    for (DType dtype : {DType::f32, DType::f64}) {
      if (normalizer == "centernorm") continue;
      SCOPED_TRACE(normalizer + ", " + name(dtype));
      Transformer pre_norm(config_of_powers(normalizer, true), 1, dtype),
          post_norm(config_of_powers(normalizer, false), 1, dtype);
      for (Transformer* model : {&pre_norm, &post_norm}) {
        randomize(*model, 5);
        make_powers_of_two(*model);
      }
      expect_the_same_bits(pre_norm, {Tied::untie});
      expect_the_same_bits(pre_norm, {Tied::keep});
      expect_the_same_bits(post_norm, {Tied::untie});
      for (Parameter* p : post_norm.parameters())
        if (p->name.ends_with("bias")) p->value.zero();
      expect_the_same_bits(post_norm, {Tied::untie, /*rescale_stream=*/true});
    }
}

TEST(FoldTransformer, PreNormWithATiedTable) {
  TransformerConfig config = tiny_config("un");
  config.decoder_layers = 2;
  Transformer model(config, 1);
  randomize(model, 5);
  FoldedModel folded = fold(model);
  auto sites = by_site(folded);
  EXPECT_EQ(sites.size(), 10u);
  for (const auto& [name, r] : sites)
    EXPECT_EQ(r.outcome, name == "decoder.layer_norm" ? Outcome::kept : Outcome::folded) << name;
  std::vector<std::string>& memory = sites["encoder.layer_norm"].into;
  std::sort(memory.begin(), memory.end());  // the compiler chooses which of q, k and v is recorded first
  EXPECT_EQ(memory, (std::vector<std::string>{
                        "decoder.layers.0.encoder_attn.k_proj.weight", "decoder.layers.0.encoder_attn.v_proj.weight",
                        "decoder.layers.1.encoder_attn.k_proj.weight", "decoder.layers.1.encoder_attn.v_proj.weight"}));
  EXPECT_EQ(sites["decoder.layers.1.encoder_attn_layer_norm"].into,
            std::vector<std::string>{"decoder.layers.1.encoder_attn.q_proj.weight"});
  EXPECT_EQ(sites["decoder.layers.0.final_layer_norm"].into, std::vector<std::string>{"decoder.layers.0.fc1.weight"});
  EXPECT_EQ(sites["encoder.layers.0.self_attn_layer_norm"].into.size(), 3u);
  const SiteReport& last = sites["decoder.layer_norm"];
  EXPECT_EQ(last.outcome, Outcome::kept);
  ASSERT_EQ(last.kept.size(), 1u);
  EXPECT_EQ(last.kept[0].edge, "decoder.layer_norm -> decoder.output_projection: linear");
  EXPECT_EQ(last.kept[0].reason,
            "the layer's weight encoder.embed_tokens.weight is also read by encoder.embed_tokens: embedding");
  using Sites = std::map<std::string, std::string>;
  EXPECT_EQ(transformer_of(folded).config().normalizer, "none");
  EXPECT_EQ(transformer_of(folded).config().normalizer_at, (Sites{{"decoder.layer_norm", "affine"}}));
  EXPECT_TRUE(folded.model->state().empty());

  folded = fold(model, {Tied::untie});
  EXPECT_EQ(by_site(folded)["decoder.layer_norm"].into, std::vector<std::string>{"decoder.output_projection.weight"});
  EXPECT_EQ(transformer_of(folded).config().normalizer_at, Sites{});
  EXPECT_EQ(transformer_of(folded).config().share_embeddings, "inputs");
  EXPECT_TRUE(transformer_of(folded).config().output_bias);

  folded = fold(model, {Tied::keep});
  EXPECT_EQ(by_site(folded)["decoder.layer_norm"].outcome, Outcome::partly);
  EXPECT_EQ(transformer_of(folded).config().normalizer_at, (Sites{{"decoder.layer_norm", "scale"}}));
  EXPECT_EQ(transformer_of(folded).config().share_embeddings, "all");
  EXPECT_TRUE(transformer_of(folded).config().output_bias);
}

TEST(FoldTransformer, PostNormKeepsItsMapOnTheResidualOrRescalesTheStream) {
  TransformerConfig config = tiny_config("bn", /*pre_norm=*/false);
  config.share_embeddings = "none";
  Transformer model(config, 1);
  randomize(model, 5);
  FoldedModel folded = fold(model);
  const auto sites = by_site(folded);
  const SiteReport& first = sites.at("encoder.layers.0.self_attn_layer_norm");
  EXPECT_EQ(first.outcome, Outcome::partly);
  EXPECT_EQ(first.into, std::vector<std::string>{"encoder.layers.0.fc1.weight"});
  ASSERT_EQ(first.kept.size(), 1u);
  EXPECT_EQ(first.kept[0].edge, "encoder.layers.0.self_attn_layer_norm -> encoder.layers.0.ffn: bias_dropout_residual");
  EXPECT_EQ(first.kept[0].reason, "the sum and all later readers of the stream need the map");
  EXPECT_EQ(sites.at("encoder.layers.0.final_layer_norm").outcome, Outcome::folded);  // only cross-attention reads it
  EXPECT_EQ(sites.at("decoder.layers.0.final_layer_norm").outcome, Outcome::folded);
  using Sites = std::map<std::string, std::string>;
  EXPECT_EQ(transformer_of(folded).config().normalizer_at, (Sites{{"encoder.layers.0.ffn.residual", "affine"},
                                                                  {"decoder.layers.0.encoder_attn.residual", "affine"},
                                                                  {"decoder.layers.0.ffn.residual", "affine"}}));
  folded = fold(model, {.rescale_stream = true});
  for (const auto& [name, r] : by_site(folded)) EXPECT_EQ(r.outcome, Outcome::folded) << name;
  EXPECT_EQ(transformer_of(folded).config().normalizer_at, Sites{});

  model.normalizers()[0]->parameters()[0]->value.data<float>()[3] = 0;
  folded = fold(model, {.rescale_stream = true});
  const SiteReport zero = by_site(folded).at("encoder.layers.0.self_attn_layer_norm");
  ASSERT_EQ(zero.kept.size(), 1u);
  EXPECT_EQ(zero.kept[0].reason, "the stream cannot be rescaled: it would be divided by A = 0 in channel 3");
  EXPECT_EQ(transformer_of(folded).config().normalizer_at, (Sites{{"encoder.layers.0.ffn.residual", "affine"}}));
  EXPECT_LE(folding_error(model, translation_batch().named(), {.rescale_stream = true}).relative, 2e-6);
}

TEST(FoldTransformer, OfOnlineNormalizersGainAndBiasFold) {
  Transformer model(tiny_config("ln"), 1);
  randomize(model, 5);
  const FoldedModel folded = fold(model, {Tied::untie});
  EXPECT_EQ(transformer_of(folded).config().normalizer, "ln");
  for (Normalizer* norm : folded.model->normalizers()) {
    EXPECT_TRUE(identical(norm->parameters()[0]->value, Tensor::full({8}, 1, DType::f32))) << norm->site();
    EXPECT_TRUE(identical(norm->parameters()[1]->value, Tensor::zeros({8}, DType::f32))) << norm->site();
  }
  const FoldedModel kept = fold(model, {Tied::keep});
  EXPECT_TRUE(identical(kept.model->normalizers().back()->parameters()[0]->value,
                        model.normalizers().back()->parameters()[0]->value));
  EXPECT_TRUE(transformer_of(kept).config().output_bias);
}

}  // namespace
}  // namespace foldgrad::testing
