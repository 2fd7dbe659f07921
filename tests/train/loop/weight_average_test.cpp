#include "train/loop/optimizer/weight_average.h"

#include "tests/harness/compare.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// decay = 3/4 from a = (0, 8): p = (4, 0) gives (1, 6), then p = (1, -2) gives (1, 4).
TEST(WeightAverage, EMA_1_WorkedByHand) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64}) {
      const auto tensor = [&](double a, double b) { return Tensor::of<double>({2}, {a, b}).to(dtype).to(device); };
      Parameter w{"w", tensor(0, 8)};
      WeightAverage average({&w}, 0.75);
      w.value.copy_from(tensor(4, 0));
      average.update();
      EXPECT_TRUE(identical(average.state().at("w"), tensor(1, 6)));
      w.value.copy_from(tensor(1, -2));
      average.update();
      EXPECT_TRUE(identical(average.state().at("w"), tensor(1, 4)));
      EXPECT_TRUE(identical(w.value, tensor(1, -2)));
    }
}

// The same numbers for a statistic: decay = 3/4 from a = 8 with s = 0, then s = -2.
TEST(WeightAverage, AVG_3_WorkedByHand) {
  for (Device device : devices()) {
    Parameter w{"w", Tensor::zeros({2}, DType::f32, device)};
    Tensor statistic = Tensor::full({1}, 8, DType::f32, device);
    WeightAverage average({&w}, 0.75, {{"norm.run_var", statistic}});
    for (const double s : {0.0, -2.0}) {
      statistic.copy_from(Tensor::full({1}, s, DType::f32));
      average.update();
    }
    const Tensor four = Tensor::full({1}, 4, DType::f32);
    EXPECT_TRUE(identical(average.state().at("norm.run_var"), four));
    average.swap();
    EXPECT_TRUE(identical(statistic, four));
    average.swap();
    EXPECT_TRUE(identical(statistic, Tensor::full({1}, -2, DType::f32)));
  }
}

TEST(WeightAverage, SwapTwiceChangesNothing) {
  for (Device device : devices()) {
    const Tensor start = Tensor::full({3}, 1, DType::f32, device), later = Tensor::full({3}, 2, DType::f32, device);
    Parameter w{"w", start.clone()};
    WeightAverage average({&w}, 0.5);
    w.value.copy_from(later);
    const Tensor seen_by_others = w.value;  // tied weights share the storage
    average.swap();
    EXPECT_TRUE(identical(seen_by_others, start));
    EXPECT_TRUE(identical(average.state().at("w"), later));
    average.swap();
    EXPECT_TRUE(identical(w.value, later));
    EXPECT_TRUE(identical(average.state().at("w"), start));
  }
}

TEST(WeightAverage, ResumesBitForBit) {
  for (Device device : devices()) {
    Parameter w{"w", randn({5000}, 1).to(DType::f32).to(device)};
    WeightAverage whole({&w}, 0.9);
    const auto step = [&](unsigned seed, WeightAverage& average) {
      w.value.copy_from(randn({5000}, seed).to(DType::f32));
      average.update();
    };
    step(2, whole);
    const Tensor saved = whole.state().at("w").clone();
    step(3, whole);
    WeightAverage resumed({&w}, 0.9);
    resumed.load_state({{"w", saved.to(Device::cpu)}});
    step(3, resumed);
    EXPECT_TRUE(identical(resumed.state().at("w"), whole.state().at("w")));
  }
}

TEST(WeightAverage, Errors) {
  Parameter w{"w", Tensor::zeros({2}, DType::f32)}, d{"d", Tensor::zeros({2}, DType::f64)},
      h{"h", Tensor::zeros({2}, DType::bf16)};
  const auto refusal = [](std::vector<Parameter*> parameters, double decay) {
    return message_of([&] { WeightAverage(std::move(parameters), decay); });
  };
  EXPECT_EQ(refusal({&w}, 1), "weight_average: decay must be at least 0 and below 1, got 1");
  EXPECT_EQ(refusal({}, 0.5), "weight_average: there are no parameters");
  EXPECT_EQ(refusal({&h}, 0.5), "weight_average: h must be f32 or f64, got bf16 [2] on cpu");
  EXPECT_EQ(refusal({&w, &w}, 0.5), "weight_average: two parameters are called w");
  EXPECT_EQ(refusal({&w, &d}, 0.5),
            "weight_average: d must be f32 [2] on cpu, to go with w, which is f32 [2] on cpu, got f64 [2] on cpu");
  WeightAverage average({&w}, 0.5);
  EXPECT_EQ(message_of([&] { average.load_state({}); }), "weight_average: the saved state has no w");
}

}  // namespace
}  // namespace foldgrad::testing
