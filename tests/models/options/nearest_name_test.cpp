#include "models/options/nearest_name.h"

#include <gtest/gtest.h>

namespace foldgrad::testing {
namespace {

const std::vector<std::string> kKeys{"model.width",     "model.heads",  "model.encoder_layers", "train.lr",
                                     "train.steps",     "train.eps",    "train.warmup",         "train.max_tokens",
                                     "train.optimizer", "validate.beam"};

TEST(NearestName, NeedsTheFewestEdits) {
  EXPECT_EQ(nearest_name("rmsnrm", {"rbn", "rmsnorm", "un"}), "rmsnorm");
  EXPECT_EQ(nearest_name("train.wamrup", kKeys), "train.warmup");
  EXPECT_EQ(nearest_name("--tolerence", {"--json", "--tolerance"}), "--tolerance");
  EXPECT_EQ(nearest_name("ac", {"ab", "ad"}), "ab");  // both are equally near; the first is chosen
  EXPECT_EQ(nearest_name("x", {}), "");
}

// In "warmup", two of the six letters may differ, but not three. In "lr", one of the two letters may differ, but not
// both.
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

TEST(NearestName, IsAQuestion) {
  EXPECT_EQ(did_you_mean("unn", {"un"}, "\""), "; did you mean \"un\"?");
  EXPECT_EQ(did_you_mean("train.lrr", kKeys), "; did you mean train.lr?");
  EXPECT_EQ(did_you_mean("zyx", kKeys, "\"", "."), ".");
}

}  // namespace
}  // namespace foldgrad::testing
