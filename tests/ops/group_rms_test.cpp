#include "ops/power_norm/group_rms.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

const RegisterOp kGroupRms({
    .name = "group_rms",
    .cases = {{.label = "2 groups",
               .operands = {randn({3, 6}, 1)},
               .f = [](const std::vector<Var>& v) { return group_rms(v[0], 2); }},
              {.label = "one channel per group",
               .operands = {randn({2, 3}, 2)},
               .f = [](const std::vector<Var>& v) { return group_rms(v[0], 3, 0.1); }}},
    .errors = {{"group_rms: groups must divide 6 channels, got 4",
                [](Tape& t) {
                  group_rms(t.constant(Tensor::zeros({2, 6}, DType::f32)), 4);
                }}},
});

// x = (3, 4) in one group: 9 + 16 = 25, mean 12.5; eps = 3.5 makes the root 4.
TEST(GroupRms, PN_4_WorkedByHand) {
  Tape tape;
  const Var y = group_rms(tape.constant(Tensor::of<double>({1, 4}, {3, 4, 0, 0})), 2, 3.5);
  EXPECT_EQ(y.value().values<double>(), (std::vector<double>{0.75, 1, 0, 0}));
}

}  // namespace
}  // namespace foldgrad::testing
