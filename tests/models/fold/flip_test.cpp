// Tests that a map folds across flip() along any axis, including the channels.
#include "ops/flip/flip.h"

#include "ops/concat/concat.h"
#include "ops/permute/permute.h"
#include "ops/reshape/reshape.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

TEST(FoldFlip, FLIP_3_AlongChannelsOrTokens) {
  for (const char* kind : {"affine", "centernorm", "bn"})
    for (int axis : {0, 1, 2})
      EXPECT_EQ(refusal([&](GraphBuilder& g) {
                  return Vars{g.linear(flip(g.norm(g.input({2, 3, 4}), "norm", kind), axis), "fc", 5)};
                }),
                "folded")
          << kind << " along axis " << axis;
}

// Each row has 15 elements. Channel c fills elements 1 + 3 c to 3 + 3 c. One other value precedes the channels, and two
// follow them.
TEST(FoldFlip, FLIP_3_AmongOtherValues) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = reshape(permute(g.norm(g.input({2, 3, 4})), {0, 2, 1}), {2, 12});
              const Var before = g.tape.constant(randn({2, 1}, 1)), after = g.tape.constant(randn({2, 1}, 2));
              return Vars{g.linear(flip(concat({before, y, after, after}, 1), 1), "fc", 5)};
            }),
            "folded");
}

}  // namespace
}  // namespace foldgrad::testing
