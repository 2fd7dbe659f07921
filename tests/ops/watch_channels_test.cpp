#include "ops/watch_channels/watch_channels.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

Var watched(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record) {
  return watch_channels(y, offset.to(y.dtype() == DType::f64 ? DType::f64 : DType::f32).to(y.device()),
                        std::move(record));
}

OpCase watch_case(Shape y) {
  const Tensor offset = randn({y[-1]}, 2);
  return {.label = fmt::format("{}", y), .operands = {randn(y, 1)}, .f = [offset](const std::vector<Var>& v) {
            return watched(v[0], offset, std::make_shared<ChannelRecord>());
          }};
}

const RegisterOp kWatchChannels({
    .name = "watch_channels",
    .cases = {watch_case({2, 3, 5}), watch_case({70, 33}), watch_case({4})},
    .errors = {{"watch_channels: offset must be f32 [2] on cpu, to go with y, which is f32 [3, 2] on cpu, got f32 [3] "
                "on cpu",
                [](Tape& t) {
                  watch_channels(t.constant(Tensor::zeros({3, 2}, DType::f32)), Tensor::zeros({3}, DType::f32),
                                 std::make_shared<ChannelRecord>());
                }}},
});

// sum dy (y - offset) over the rows: 5 (1 - 1) + 7 (3 - 1) = 14, and 6 (2 + 1) + 8 (4 + 1) = 58. dy passes unchanged.
TEST(WatchChannels, SumsByHand) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Tape tape;
      const Var x = tape.variable(Tensor::of<float>({2, 2}, {1, 2, 3, 4}).to(dtype).to(device));
      const auto record = std::make_shared<ChannelRecord>();
      const Var y = watched(x, Tensor::of<float>({2}, {1, -1}), record);
      EXPECT_TRUE(identical(y.value(), x.value()));
      const Tensor dy = Tensor::of<float>({2, 2}, {5, 6, 7, 8}).to(dtype).to(device);
      tape.backward(y, dy.clone());
      EXPECT_EQ(record->gradient_sum.to(DType::f64).values<double>(), (std::vector<double>{14, 58}));
      EXPECT_TRUE(identical(tape.grad(x), dy));
    }
}

}  // namespace
}  // namespace foldgrad::testing
