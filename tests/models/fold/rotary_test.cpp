// No map per channel can pass a rotation.
#include "ops/rotary/rotary.h"

#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

TEST(FoldRotary, IsRefused) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = rotary(g.norm(g.input({2, 4})), Tensor::of<std::int64_t>({2}, {0, 1}),
                                   RotaryTable(2, 4, 1e4, DType::f64), 4);
              return Vars{g.linear(y, "fc", 5)};
            }),
            "norm -> rotary: rotary mixes the columns of a pair");
}

}  // namespace
}  // namespace foldgrad::testing
