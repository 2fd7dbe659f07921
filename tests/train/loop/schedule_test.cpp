// Tests learning-rate schedules and averages of weights.
#include "train/loop/schedule.h"

#include <limits>

#include "tests/harness/op_spec.h"
#include "train/loop/optimizer/weight_average.h"

namespace foldgrad::testing {
namespace {

// The numbers are from fairseq's inverse_sqrt with --lr 7e-4 --warmup-updates 6000 --warmup-init-lr 1e-7, the recipe
// for IWSLT14. The last two numbers have only six digits, so their tolerance is 3e-6.
TEST(Schedule, SCH_1_SCH_2_InverseSqrtIsFairseqs) {
  const Schedule schedule({.shape = ScheduleShape::inverse_sqrt, .peak = 7e-4, .initial = 1e-7, .warmup = 6000});
  EXPECT_DOUBLE_EQ(schedule.lr(0), 1e-7);
  EXPECT_NEAR(schedule.lr(1000) / 1.1675e-4, 1, 1e-9);
  EXPECT_DOUBLE_EQ(schedule.lr(6000), 7e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(24000), 3.5e-4);
  EXPECT_NEAR(schedule.lr(50000) / 2.42487e-4, 1, 3e-6);
  EXPECT_NEAR(schedule.lr(99999) / 1.71465e-4, 1, 3e-6);
}

// The cosine takes 60 updates after the warm-up. After 20, 30 and 40 of these it is cos(pi / 3) = 1/2, cos(pi / 2) = 0
// and cos(2 pi / 3) = -1/2.
TEST(Schedule, SCH_1_SCH_3_CosineWorkedByHand) {
  const Schedule schedule(
      {.shape = ScheduleShape::cosine, .peak = 1, .initial = 0.5, .minimum = 0.2, .warmup = 4, .total = 64});
  EXPECT_DOUBLE_EQ(schedule.lr(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.lr(1), 0.625);
  EXPECT_DOUBLE_EQ(schedule.lr(4), 1);
  EXPECT_DOUBLE_EQ(schedule.lr(24), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr(34), 0.6);
  EXPECT_DOUBLE_EQ(schedule.lr(44), 0.4);
  EXPECT_DOUBLE_EQ(schedule.lr(64), 0.2);
  EXPECT_DOUBLE_EQ(schedule.lr(1000), 0.2);
}

TEST(Schedule, SCH_1_SCH_4_ConstantWorkedByHand) {
  const Schedule schedule({.shape = ScheduleShape::constant, .peak = 3, .warmup = 2});
  EXPECT_EQ(schedule.lr(0), 0);
  EXPECT_EQ(schedule.lr(1), 1.5);
  EXPECT_EQ(schedule.lr(2), 3);
  EXPECT_EQ(schedule.lr(1000), 3);
  EXPECT_EQ(Schedule({.shape = ScheduleShape::constant, .peak = 3}).lr(0), 3);
}

std::string refusal(const ScheduleOptions& options) {
  return message_of([&] { Schedule schedule(options); });
}

TEST(Schedule, Errors) {
  EXPECT_EQ(refusal({.shape = ScheduleShape::constant}), "schedule: peak must be positive, got 0");
  EXPECT_EQ(refusal({.shape = ScheduleShape::constant, .peak = std::numeric_limits<double>::quiet_NaN()}),
            "schedule: peak must be positive, got nan");
  EXPECT_EQ(refusal({.shape = ScheduleShape::constant, .peak = 1, .initial = 2}),
            "schedule: initial must be between 0 and the peak, 1, got 2");
  EXPECT_EQ(refusal({.shape = ScheduleShape::constant, .peak = 1, .warmup = -1}),
            "schedule: warmup must be at least 0, got -1");
  EXPECT_EQ(refusal({.shape = ScheduleShape::inverse_sqrt, .peak = 1}), "schedule: warmup must be at least 1, got 0");
  EXPECT_EQ(refusal({.shape = ScheduleShape::constant, .peak = 1, .minimum = 0.5}),
            "schedule: minimum must be between 0 and 0 with constant, got 0.5");
  EXPECT_EQ(refusal({.shape = ScheduleShape::cosine, .peak = 1, .minimum = 2, .total = 9}),
            "schedule: minimum must be between 0 and 1 with cosine, got 2");
  EXPECT_EQ(refusal({.shape = ScheduleShape::cosine, .peak = 1, .warmup = 9, .total = 9}),
            "schedule: total must be above the warm-up, 9, with cosine, got 9");
  EXPECT_EQ(refusal({.shape = ScheduleShape::constant, .peak = 1, .total = 9}),
            "schedule: total must be left at 0 with constant, got 9");
  EXPECT_EQ(message_of([] { Schedule({.shape = ScheduleShape::constant, .peak = 1}).lr(-1); }),
            "schedule: n must be at least 0, got -1");
}

// With decay = 3/4, the average (0, 8) becomes (1, 6) after p = (4, 0), and then (1, 4) after p = (1, -2).
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

// A statistic is averaged like a weight: with decay = 3/4, the average 8 becomes 6 after s = 0, and then 4 after s =
// -2.
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
    const Tensor seen_by_others = w.value;  // tied weights share this storage
    average.swap();
    EXPECT_TRUE(identical(seen_by_others, start));
    EXPECT_TRUE(identical(average.state().at("w"), later));
    average.swap();
    EXPECT_TRUE(identical(w.value, later));
    EXPECT_TRUE(identical(average.state().at("w"), start));
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
  EXPECT_EQ(refusal({&w, &w}, 0.5), "weight_average: two parameters are named w");
  EXPECT_EQ(refusal({&w, &d}, 0.5),
            "weight_average: d must be f32 [2] on cpu (w is f32 [2] on cpu), got f64 [2] on cpu");
  WeightAverage average({&w}, 0.5);
  EXPECT_EQ(message_of([&] { average.load_state({}); }), "weight_average: the saved state has no w");
}

}  // namespace
}  // namespace foldgrad::testing
