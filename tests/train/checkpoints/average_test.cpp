#include "train/checkpoints/average.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/error_message.h"
#include "tests/harness/properties.h"

namespace foldgrad {
namespace {

TEST(Average, AVG_1_AVG_2_WorkedByHand) {
  const auto model = [](float x, double y, std::int64_t counter) {
    return NamedTensors{{"x", Tensor::of<float>({2}, {x, -x})},
                        {"y", Tensor::of<double>({}, {y})},
                        {"iters", Tensor::of<std::int64_t>({2}, {counter, -counter})}};
  };
  const NamedTensors a = average({model(1, 0.5, 3), model(2, 0.25, 5), model(6, 0.75, 6)});
  EXPECT_EQ(a.at("x").values<float>(), (std::vector<float>{3, -3}));
  EXPECT_EQ(a.at("y").values<double>(), (std::vector<double>{0.5}));
  EXPECT_EQ(a.at("iters").values<std::int64_t>(), (std::vector<std::int64_t>{4, -5}));  // floor(14 / 3), floor(-14 / 3)
}

TEST(Average, AVG_1_SumsInDouble) {
  const auto model = [](float x) { return NamedTensors{{"x", Tensor::of<float>({1}, {x})}}; };
  EXPECT_EQ(average({model(1e8f), model(3), model(-1e8f)}).at("x").item(), 1);  // 1e8f + 3 is 1e8f
}

TEST(Average, KeepsShapesAndTypes) {
  const NamedTensors models{{"a", Tensor::zeros({2, 0}, DType::bf16)},
                            {"b", Tensor::of<std::uint8_t>({1, 2}, {1, 255})}};
  const NamedTensors a = average({models, models});
  EXPECT_EQ(a.at("a").shape(), Shape({2, 0}));
  EXPECT_EQ(a.at("a").dtype(), DType::bf16);
  EXPECT_EQ(a.at("b").shape(), Shape({1, 2}));
  EXPECT_EQ(a.at("b").values<std::uint8_t>(), (std::vector<std::uint8_t>{1, 255}));
}

RC_GTEST_PROP(Average, OfEqualsIsTheSame, (std::vector<float> x)) {
  for (float& v : x)
    if (!std::isfinite(v)) v = 0;
  const NamedTensors model{{"x", Tensor::of<float>({std::int64_t(x.size())}, x)}};
  RC_ASSERT(average({model, model, model, model}).at("x").values<float>() == x);
}

TEST(Average, RefusesWhatDiffers) {
  const auto refusal = [](const std::vector<NamedTensors>& models) {
    return testing::message<std::invalid_argument>([&] { average(models); });
  };
  const NamedTensors one{{"x", Tensor::zeros({2}, DType::f32)}};
  EXPECT_EQ(refusal({}), "average: there must be at least 1 model, got 0");
  EXPECT_EQ(refusal({one, {}}), "average: the saved state has no x");
  EXPECT_EQ(refusal({one, {{"x", Tensor::zeros({3}, DType::f32)}}}),
            "average: x of the saved state must be f32 [2], got f32 [3] on cpu");
}

}  // namespace
}  // namespace foldgrad
