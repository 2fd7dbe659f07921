// A folded Transformer is the Transformer: random models with every normalizer, and what is left of each site.
#include <gtest/gtest.h>

#include "models/decoding.h"
#include "tests/harness/properties.h"
#include "tests/models/random_transformer.h"

namespace foldgrad::testing {
namespace {

using Tied = FoldOptions::Tied;
using Outcome = SiteReport::Outcome;

bool all_folded(const FoldedTransformer& folded) {
  return std::all_of(folded.reports.begin(), folded.reports.end(),
                     [](const SiteReport& r) { return r.outcome == Outcome::folded; });
}

Difference folding_error(Transformer& model, const FoldOptions& options, DType dtype) {
  const FoldedTransformer folded = fold(model, options);
  const TranslationBatch batch = translation_batch();
  return difference(inference_logits(*folded.model, batch, dtype), inference_logits(model, batch, dtype));
}

FoldOptions random_options() {
  return {*rc::gen::element(Tied::refuse, Tied::untie, Tied::keep), *rc::gen::element(false, true)};
}

std::vector<std::string> names(bool offline) {
  std::vector<std::string> all;
  for (const NormalizerInfo& info : normalizers())
    if (info.offline() == offline) all.push_back(info.name);
  return all;
}

void check_difference(bool offline, DType dtype, double tolerance) {
  const std::string normalizer = *rc::gen::elementOf(names(offline));
  TransformerConfig config = random_config(normalizer, normalizer != "deepnorm" && *rc::gen::element(false, true));
  if (normalizer == "groupnorm" || normalizer == "pn") config.normalizer_options = {{"groups", "2"}};
  const auto model = random_transformer(config, dtype);
  const FoldOptions options = random_options();
  const Difference d = folding_error(*model, options, dtype);
  if (offline && (config.pre_norm || options.rescale_stream) && normalizer != "centernorm" && normalizer != "none")
    RC_ASSERT(all_folded(fold(*model, options)) == (options.tied == Tied::untie || config.own_output_table()));
  RC_LOG() << normalizer << ", relative difference " << d.relative;
  RC_ASSERT(d.relative <= tolerance);
}

// On random models, 100 each, of which the offline ones have running variances from 1e-8 to 1e8.
RC_GTEST_PROP(FoldTransformer, FOLD_1_FOLD_2_FOLD_4_FOLD_5_OfflineInF64, ()) {
  check_difference(/*offline=*/true, DType::f64, 1e-12);
}
RC_GTEST_PROP(FoldTransformer, OfflineInF32, ()) { check_difference(/*offline=*/true, DType::f32, 2e-6); }
RC_GTEST_PROP(FoldTransformer, OnlineInF64, ()) { check_difference(/*offline=*/false, DType::f64, 1e-12); }
RC_GTEST_PROP(FoldTransformer, OnlineInF32, ()) { check_difference(/*offline=*/false, DType::f32, 2e-6); }

// Where nothing is rounded but sums, and these in the same order.
TEST(FoldTransformer, PowersOfTwoAndNoBiasAreFoldedBitForBit) {
  for (const char* normalizer : {"un", "affine"})
    for (Tied tied : {Tied::untie, Tied::keep}) {
      TransformerConfig config = tiny_config(normalizer);
      config.encoder_layers = config.decoder_layers = 2;
      if (config.normalizer == "un") config.normalizer_options = {{"eps", "1.52587890625e-05"}};  // 2^-16
      Transformer model(config, 1);
      randomize(model, 5);
      unsigned seed = 0;
      for (Normalizer* norm : model.normalizers()) {
        const Tensor exponent = random_ids({8}, 5, ++seed);
        const auto power = [&](std::int64_t c, double base) {
          return std::pow(base, double(exponent.data<std::int64_t>()[c] - 2));
        };
        norm->parameters()[1]->value.zero();
        for (std::int64_t c = 0; c < 8; ++c) {
          norm->parameters()[0]->value.data<float>()[c] = float((c % 2 ? -1 : 1) * power(7 - c, 2));
          if (config.normalizer == "un")
            norm->state().at("run_var").data<float>()[c] = float(power(c, 4) - std::pow(2.0, -16));
        }
      }
      const TranslationBatch batch = translation_batch();
      EXPECT_TRUE(identical(inference_logits(*fold(model, {tied}).model, batch, DType::f32),
                            inference_logits(model, batch, DType::f32)))
          << normalizer;
    }
}

std::map<std::string, SiteReport> by_site(const FoldedTransformer& folded) {
  std::map<std::string, SiteReport> all;
  for (const SiteReport& r : folded.reports) all[r.site] = r;
  return all;
}

TEST(FoldTransformer, PreNormWithATiedTable) {
  TransformerConfig config = tiny_config("un");
  config.decoder_layers = 2;
  Transformer model(config, 1);
  randomize(model, 5);
  FoldedTransformer folded = fold(model);
  auto sites = by_site(folded);
  EXPECT_EQ(sites.size(), 10u);
  for (const auto& [name, r] : sites)
    EXPECT_EQ(r.outcome, name == "decoder.layer_norm" ? Outcome::kept : Outcome::folded) << name;
  std::vector<std::string>& memory = sites["encoder.layer_norm"].into;
  std::sort(memory.begin(), memory.end());  // which of q, k and v is recorded first is the compiler's choice
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
            "its weight encoder.embed_tokens.weight is also read by encoder.embed_tokens: embedding");
  using Sites = std::map<std::string, std::string>;
  EXPECT_EQ(folded.model->config().normalizer, "none");
  EXPECT_EQ(folded.model->config().normalizer_at, (Sites{{"decoder.layer_norm", "affine"}}));
  EXPECT_TRUE(folded.model->state().empty());

  folded = fold(model, {Tied::untie});
  EXPECT_EQ(by_site(folded)["decoder.layer_norm"].into, std::vector<std::string>{"decoder.output_projection.weight"});
  EXPECT_EQ(folded.model->config().normalizer_at, Sites{});
  EXPECT_EQ(folded.model->config().share_embeddings, "inputs");
  EXPECT_TRUE(folded.model->config().output_bias);

  folded = fold(model, {Tied::keep});
  EXPECT_EQ(by_site(folded)["decoder.layer_norm"].outcome, Outcome::partly);
  EXPECT_EQ(folded.model->config().normalizer_at, (Sites{{"decoder.layer_norm", "scale"}}));
  EXPECT_EQ(folded.model->config().share_embeddings, "all");
  EXPECT_TRUE(folded.model->config().output_bias);
}

TEST(FoldTransformer, PostNormKeepsItsMapOnTheResidualOrRescalesTheStream) {
  TransformerConfig config = tiny_config("bn", /*pre_norm=*/false);
  config.share_embeddings = "none";
  Transformer model(config, 1);
  randomize(model, 5);
  FoldedTransformer folded = fold(model);
  const auto sites = by_site(folded);
  const SiteReport& first = sites.at("encoder.layers.0.self_attn_layer_norm");
  EXPECT_EQ(first.outcome, Outcome::partly);
  EXPECT_EQ(first.into, std::vector<std::string>{"encoder.layers.0.fc1.weight"});
  ASSERT_EQ(first.kept.size(), 1u);
  EXPECT_EQ(first.kept[0].edge, "encoder.layers.0.self_attn_layer_norm -> encoder.layers.0.ffn: bias_dropout_residual");
  EXPECT_EQ(first.kept[0].reason, "a sum, and so whatever reads the stream behind it, needs the map itself");
  EXPECT_EQ(sites.at("encoder.layers.0.final_layer_norm").outcome, Outcome::folded);  // of the memory alone
  EXPECT_EQ(sites.at("decoder.layers.0.final_layer_norm").outcome, Outcome::folded);
  using Sites = std::map<std::string, std::string>;
  EXPECT_EQ(folded.model->config().normalizer_at, (Sites{{"encoder.layers.0.ffn.residual", "affine"},
                                                         {"decoder.layers.0.encoder_attn.residual", "affine"},
                                                         {"decoder.layers.0.ffn.residual", "affine"}}));
  folded = fold(model, {.rescale_stream = true});
  for (const auto& [name, r] : by_site(folded)) EXPECT_EQ(r.outcome, Outcome::folded) << name;
  EXPECT_EQ(folded.model->config().normalizer_at, Sites{});

  model.normalizers()[0]->parameters()[0]->value.data<float>()[3] = 0;
  folded = fold(model, {.rescale_stream = true});
  const SiteReport zero = by_site(folded).at("encoder.layers.0.self_attn_layer_norm");
  ASSERT_EQ(zero.kept.size(), 1u);
  EXPECT_EQ(zero.kept[0].reason, "the stream cannot be rescaled: it would be divided by A = 0 in channel 3");
  EXPECT_EQ(folded.model->config().normalizer_at, (Sites{{"encoder.layers.0.ffn.residual", "affine"}}));
  EXPECT_LE(folding_error(model, {.rescale_stream = true}, DType::f32).relative, 2e-6);
}

TEST(FoldTransformer, OfOnlineNormalizersGainAndBiasFold) {
  Transformer model(tiny_config("ln"), 1);
  randomize(model, 5);
  const FoldedTransformer folded = fold(model, {Tied::untie});
  EXPECT_EQ(folded.model->config().normalizer, "ln");
  for (Normalizer* norm : folded.model->normalizers()) {
    EXPECT_TRUE(identical(norm->parameters()[0]->value, Tensor::full({8}, 1, DType::f32))) << norm->site();
    EXPECT_TRUE(identical(norm->parameters()[1]->value, Tensor::zeros({8}, DType::f32))) << norm->site();
  }
  const FoldedTransformer kept = fold(model, {Tied::keep});
  EXPECT_TRUE(
      identical(kept.model->decoder_norm()->parameters()[0]->value, model.decoder_norm()->parameters()[0]->value));
  EXPECT_TRUE(kept.model->config().output_bias);
}

TEST(FoldTransformer, FoldingTwiceChangesNothing) {
  for (bool pre_norm : {true, false}) {
    Transformer model(tiny_config("un", pre_norm), 1);
    randomize(model, 5);
    const FoldedTransformer once = fold(model), twice = fold(*once.model);
    EXPECT_EQ(once.model->config(), twice.model->config());
    const auto a = once.model->parameters(), b = twice.model->parameters();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(identical(a[i]->value, b[i]->value)) << a[i]->name;
  }
}

TEST(FoldTransformer, FoldedModelsDecodeAlike) {
  for (bool pre_norm : {true, false}) {
    Transformer model(tiny_config("un", pre_norm), 1);
    randomize(model, 5);
    const TranslationBatch batch = translation_batch();
    for (const FoldOptions& options : {FoldOptions{}, FoldOptions{Tied::untie, true}, FoldOptions{Tied::keep}}) {
      const FoldedTransformer folded = fold(model, options);
      const DecodingOptions decoding{.beam = 3};
      const auto want = beam_search(model, batch.source, batch.source_mask, decoding),
                 got = beam_search(*folded.model, batch.source, batch.source_mask, decoding);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i][0].ids, want[i][0].ids);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
