#include "ops/channel_sums/channel_sums.h"

#include "engine/parallel/team.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

TEST(ChannelMoments, OfRanksAreThoseOfAllTheirRows) {
  for (const auto& [first, second] : {std::pair(0, 1), {1, 0}, {3, 2}, {70, 1}}) {
    const Tensor x = randn({first + second, 3}, 1, 1, 0.3);
    for (const bool with_mean : {false, true}) {
      const ChannelMoments want = channel_moments(x, with_mean);
      Team({.ranks = 2}).run([&, first = first](Communicator& c) {
        const Tensor own = c.rank() == 0 ? x.slice(0, first) : x.slice(first, x.shape()[0]);
        const ChannelMoments got = channel_moments(own, with_mean, &c);
        EXPECT_EQ(got.count, want.count);
        // The tolerance allows a few rounding errors in sums of up to 71 squares near 1.
        EXPECT_TRUE(close(got.mean, want.mean, 1e-14)) << first << " and " << second;
        EXPECT_TRUE(close(got.square, want.square, 1e-14)) << first << " and " << second;
      });
    }
  }
}

TEST(ChannelMoments, OfNoRowsAreNone) {
  const Tensor none = Tensor::zeros({0, 3}, DType::f64);
  Team({.ranks = 2}).run([&](Communicator& c) {
    const ChannelMoments got = channel_moments(none, /*with_mean=*/true, &c);
    EXPECT_EQ(got.count, 0);
    for (const Tensor& t : {got.mean, got.square})
      for (const double v : t.values<double>()) EXPECT_TRUE(std::isnan(v));
  });
}

}  // namespace
}  // namespace foldgrad::testing
