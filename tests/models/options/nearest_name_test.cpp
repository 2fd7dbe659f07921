#include "models/options/nearest_name.h"

#include <gtest/gtest.h>

#include <map>

namespace foldgrad::testing {
namespace {

const std::vector<std::string> kKeys{"model.width",     "model.heads",  "model.encoder_layers", "train.lr",
                                     "train.steps",     "train.eps",    "train.warmup",         "train.max_tokens",
                                     "train.optimizer", "validate.beam"};

const std::vector<std::string> kNormalizers{"bn", "ln", "none", "pn", "rmsnorm", "scalenorm", "un"};

TEST(NearestName, NeedsTheFewestEdits) {
  EXPECT_EQ(nearest_name("rmsnrm", {"rbn", "rmsnorm", "un"}), "rmsnorm");
  EXPECT_EQ(nearest_name("train.wamrup", kKeys), "train.warmup");
  EXPECT_EQ(nearest_name("--tolerence", {"--json", "--tolerance"}), "--tolerance");
  EXPECT_EQ(nearest_name("ac", {"ab", "ad"}), "ab");  // the first of several
  EXPECT_EQ(nearest_name("x", {}), "");
}

// Two of "warmup"'s six letters may differ, not three; and one of a name of two.
TEST(NearestName, ProposesNothingBeyondAThirdOfTheWord) {
  EXPECT_EQ(nearest_name("train.wXrYup", kKeys), "train.warmup");
  EXPECT_EQ(nearest_name("train.wXYZup", kKeys), "");
  EXPECT_EQ(nearest_name("train.ab", kKeys), "");
  EXPECT_EQ(nearest_name("train.lt", kKeys), "train.lr");
}

TEST(NearestName, NeighboursThatHaveChangedPlacesCountOnce) {
  EXPECT_EQ(nearest_name("ftech", {"info", "fetch"}), "fetch");
  EXPECT_EQ(nearest_name("train.rl", kKeys), "train.lr");
  EXPECT_EQ(nearest_name("ftehc", {"info", "fetch"}), "");
}

TEST(NearestName, TheLastPartDecides) {
  EXPECT_EQ(nearest_name("train.beam", kKeys), "validate.beam");
  EXPECT_EQ(nearest_name("trains.widht", kKeys), "model.width");
}

TEST(NearestName, KnowsWhatOthersCallIt) {
  for (const auto& [word, name] : std::map<std::string, std::string>{{"layernorm", "ln"},
                                                                     {"layer_norm", "ln"},
                                                                     {"LayerNorm", "ln"},
                                                                     {"batchnorm", "bn"},
                                                                     {"batch_norm", "bn"},
                                                                     {"powernorm", "pn"},
                                                                     {"unified-norm", "un"}})
    EXPECT_EQ(nearest_name(word, kNormalizers), name) << word;
  for (const auto& [word, name] : std::map<std::string, std::string>{{"train.learning_rate", "train.lr"},
                                                                     {"train.batch_size", "train.max_tokens"},
                                                                     {"train.epochs", "train.steps"},
                                                                     {"train.max_steps", "train.steps"},
                                                                     {"train.warmup_steps", "train.warmup"},
                                                                     {"model.layers", "model.encoder_layers"},
                                                                     {"model.d_model", "model.width"},
                                                                     {"model.num_heads", "model.heads"}})
    EXPECT_EQ(nearest_name(word, kKeys), name) << word;
  EXPECT_EQ(nearest_name("--output", {"--help", "--out"}), "--out");
}

TEST(NearestName, IsAQuestion) {
  EXPECT_EQ(did_you_mean("unn", {"un"}, "\""), "; did you mean \"un\"?");
  EXPECT_EQ(did_you_mean("train.lrr", kKeys), "; did you mean train.lr?");
  EXPECT_EQ(did_you_mean("zyx", kKeys, "\"", "."), ".");
}

}  // namespace
}  // namespace foldgrad::testing
