// How many kernels a step of the IWSLT recipes launches: where batches are small, starting kernels is what keeps a fast
// GPU waiting. The numbers follow from the layers, and a step launches exactly as many: a ratchet. Whoever adds a
// launch mends the code or gives the reason here; whoever saves one lowers the number. They are of the emulation, where
// a product with its bias is one kernel, and filling with zeros none.
#include <gtest/gtest.h>

#include "models/normalizers/normalizer.h"
#include "tests/train/loop/device_training.h"
#include "train/config/config.h"

#ifdef FOLDGRAD_EMULATE
#include "emulation/launch_counts.h"

namespace foldgrad::testing {
namespace {

constexpr int kEncoderLayers = 6, kDecoderLayers = 6;
constexpr int kAttentions = kEncoderLayers + 2 * kDecoderLayers, kFeedForwards = kEncoderLayers + kDecoderLayers;
constexpr int kSublayers = kAttentions + kFeedForwards;
constexpr int kSites = kSublayers + 2;  // of normalizers: before each sublayer and behind each stack
// q, k and v in one; q to the encoder, whose k and v of all layers are one.
constexpr int kJoined = kEncoderLayers + kDecoderLayers + kDecoderLayers + 1;
constexpr int kProducts = kJoined + kAttentions + 2 * kFeedForwards + 1;          // these, out; fc1, fc2; logits
constexpr int kLinearParameters = 2 * (4 * kAttentions + 2 * kFeedForwards) + 1;  // weights and biases, and the table

struct Recipe {
  const char* normalizer;
  DType dtype;
  int per_site;    // launches of one normalizer, forward and backward
  int parameters;  // of one normalizer
  int totals = 0;  // of one normalizer, that wait for others
  int others = 0;  // of all normalizers together
};
constexpr int kRowNorm = 1 + 1;      // y; dx with parts of the gradient of gamma (and beta)
constexpr int kChannelNorm = 2 + 2;  // moments and step, y; sums and step, dx
// Residuals take moments while they are formed, and, where the sum goes on, dx into their backward pass; the last of
// each stack goes nowhere else.
constexpr int kTakenByResiduals = -(kSublayers + kSublayers - 2);
constexpr int kGroupScaling = 1 + 1 + 1;  // a gain of ones; y; dx
const Recipe kRecipes[] = {
    {"ln", DType::f32, kRowNorm, 2, 2},
    {"ln", DType::bf16, kRowNorm, 2, 2},
    {"un", DType::f32, kChannelNorm, 2, 0, kTakenByResiduals},
    {"un", DType::bf16, kChannelNorm, 2, 0, kTakenByResiduals},
    {"rmsnorm", DType::f32, kRowNorm, 1, 1},
    {"bn", DType::f32, kChannelNorm, 2, 0, kTakenByResiduals},
    {"mabn", DType::f32, kChannelNorm, 2, 0, kTakenByResiduals},
    // A reshape cannot add its gradient to that of the residual while computing it.
    {"pn", DType::f32, kChannelNorm + kGroupScaling, 2, 0, kSublayers},
    {"none", DType::f32, 0, 0},
};

// A gradient that is a sum over rows takes a launch for the sums of parts of the rows, and 64 of them one for totals.
int launches(const Recipe& recipe) {
  const int parameters = kLinearParameters + recipe.parameters * kSites;
  const int layers = 3 * kProducts              // y, dx, dW
                     + kJoined                  // gradients of the biases of q, k and v
                     + (1 + 1) * kAttentions    // forward, backward
                     + (1 + 1) * kFeedForwards  // dropout of activation of x plus bias, dx with dbias
                     + (1 + 1) * kSublayers     // residual plus dropout of x plus bias, dx with dbias
                     + recipe.per_site * kSites + recipe.others;
  const int totals = (kJoined + kFeedForwards + kSublayers + recipe.totals * kSites + 63) / 64;
  const int embeddings = 2 * (1 + 1 + 1)                // of two inputs: rows of the table, plus positions, dropout
                         + 2 * (1 + 6)                  // of dropout; dtable: sorted by two digits, summed, joined
                         + 1;                           // dx, zero at padding
  const int loss = 2 + 2;                               // of rows, and their sum; 1 to begin with, dlogits
  const int optimizer = 2 * ((parameters + 511) / 512)  // 512 tensors each: squares of gradients, Adam
                        + 1;                            // the factor that clips
  return layers + totals + embeddings + loss + optimizer;
}

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << launches(recipe) << " launches"; }

// The recipe's layers and losses, as narrow as attention by tensor cores allows, and of more words than one digit of
// the sort tells apart.
TransformerConfig narrow(const ExperimentConfig& recipe) {
  TransformerConfig config = narrow_config(recipe.model);
  config.width = config.ffn_width = 32, config.heads = 1;
  if (config.normalizer_options.count("groups")) config.normalizer_options["groups"] = "2";
  config.source_vocabulary = config.target_vocabulary = 260;
  config.max_positions = 16;
  return config;
}

class LaunchBudget : public ::testing::TestWithParam<Recipe> {};

INSTANTIATE_TEST_SUITE_P(Recipes, LaunchBudget, ::testing::ValuesIn(kRecipes), [](const auto& info) {
  return std::string(info.param.normalizer) + "_" + name(info.param.dtype);
});

TEST_P(LaunchBudget, AStepLaunchesWhatItsLayersNeed) {
  const Recipe& expected = GetParam();
  const std::string path = std::string(FOLDGRAD_SOURCE_DIR) + "/configs/iwslt14-" + expected.normalizer + ".toml";
  const ExperimentConfig recipe = read_config(path);
  ASSERT_EQ(recipe.model.encoder_layers, kEncoderLayers);
  ASSERT_EQ(recipe.model.decoder_layers, kDecoderLayers);
  DeviceTraining run(narrow(recipe), {.clip = recipe.train.clip, .dtype = expected.dtype});
  for (int n = 0; n < 3; ++n) run.trainer.step();  // windows of normalizers are full
  const emulation::LaunchCounts counts;
  run.trainer.step();
  EXPECT_EQ(counts.total(), launches(expected)) << counts.table();
}

}  // namespace
}  // namespace foldgrad::testing
#endif
