// Tests that a map is folded across a permutation of rows, but not across a merge of neighbouring rows or a permutation
// of channels.
#include "ops/reindex/reindex.h"

#include "ops/permute/permute.h"
#include "ops/reshape/reshape.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

TEST(FoldReindex, REINDEX_3_AlongTheRows) {
  for (const char* kind : {"affine", "centernorm", "bn"})
    EXPECT_EQ(refusal([&](GraphBuilder& g) {
                return Vars{g.linear(reindex(g.norm(g.input({6, 4}), "norm", kind), RowOrder({2, 0, 1})), "fc", 5)};
              }),
              "folded")
        << kind;
}

// Merging two neighbouring rows turns rows into channels, so no map folds across the merge.
TEST(FoldReindex, NeighboursNextToEachOtherAreRefused) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = reindex(g.norm(g.input({4, 3})), RowOrder({0, 2, 1, 3}));
              return Vars{g.linear(reshape(y, {2, 6}), "fc", 5)};
            }),
            "norm -> reshape: reshape from [4, 3] to [2, 6] splits up the channels");
}

TEST(FoldReindex, AlongTheChannelsItIsRefused) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{g.linear(reindex(permute(g.norm(g.input({4, 3})), {1, 0}), RowOrder({2, 0, 1})), "fc", 5)};
            }),
            "norm -> reindex: reindex moves channels");
}

}  // namespace
}  // namespace foldgrad::testing
