#include "train/loop/schedule.h"

#include <limits>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// fairseq's inverse_sqrt with --lr 7e-4 --warmup-updates 6000 --warmup-init-lr 1e-7: the recipe for IWSLT14. Six
// digits, since the numbers were noted with six.
TEST(Schedule, SCH_1_SCH_2_InverseSqrtIsFairseqs) {
  const Schedule schedule({.shape = ScheduleShape::inverse_sqrt, .peak = 7e-4, .initial = 1e-7, .warmup = 6000});
  EXPECT_DOUBLE_EQ(schedule.lr(0), 1e-7);
  EXPECT_NEAR(schedule.lr(1000) / 1.1675e-4, 1, 1e-9);
  EXPECT_DOUBLE_EQ(schedule.lr(6000), 7e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(24000), 3.5e-4);
  EXPECT_NEAR(schedule.lr(50000) / 2.42487e-4, 1, 3e-6);
  EXPECT_NEAR(schedule.lr(99999) / 1.71465e-4, 1, 3e-6);
}

// cos(pi / 3) = 1/2 and cos(pi / 2) = 0.
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

}  // namespace
}  // namespace foldgrad::testing
