#include "train/reports/paired.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/reports/grid_tables.h"

namespace foldgrad::testing {
namespace {

// The critical values are from a two-sided table of Student's t with three decimals. A rounding error of 5e-4 in t
// changes p by at most 4e-5.
TEST(Paired, TailsAreThoseOfStudentsTable) {
  const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306};
  for (int freedom = 1; freedom <= 8; ++freedom) {
    EXPECT_NEAR(student_tail(t[freedom - 1], freedom), 0.05, 4e-5) << freedom;
    EXPECT_EQ(student_tail(-1, freedom), student_tail(1, freedom));
    EXPECT_EQ(student_tail(0, freedom), 1);
  }
  EXPECT_NEAR(student_tail(2.660, 60), 0.01, 4e-5);
}

// The differences are 1, 2 and 3, so t = 2 sqrt(3). With two degrees of freedom, p = 1 - t / sqrt(2 + t^2).
TEST(Paired, DifferencesAreOfTheSeedsThatBothHave) {
  const PairedDifference d = paired_difference({{"seed-1", 5}, {"seed-2", 9}, {"seed-3", 1}, {"seed-4", 7}},
                                               {{"seed-1", 4}, {"seed-2", 7}, {"seed-3", -2}, {"seed-5", 7}});
  EXPECT_EQ(d.values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(d.mean, 2);
  EXPECT_EQ(d.deviation, 1);
  EXPECT_NEAR(d.p, 1 - std::sqrt(12.0 / 14), 1e-12);
  EXPECT_TRUE(std::isnan(paired_difference({{"seed-1", 5}}, {{"seed-2", 5}}).mean));
  const PairedDifference one = paired_difference({{"seed-1", 5}}, {{"seed-1", 3}});
  EXPECT_EQ(one.mean, 2);
  EXPECT_TRUE(std::isnan(one.deviation) && std::isnan(one.p));
}

// The numbers are the BLEU scores of docs/results.md, "Normalizers in a small model".
TEST(Paired, GridsCompareTheirCellsWithTheBaseline) {
  const std::map<std::string, double> ln{{"seed-1", 26.15}, {"seed-2", 26.67}, {"seed-3", 25.60}},
      un{{"seed-1", 25.54}, {"seed-2", 25.87}, {"seed-3", 24.82}};
  GridResults results{.score = "bleu",
                      .cells = {{.name = "ln", .score = ln, .loss = ln},
                                {.name = "un", .score = un, .loss = un},
                                {.name = "wild", .score = {}, .others = {"diverged"}},
                                {.name = "one", .score = {{"seed-3", 25.5}}, .loss = {{"seed-3", 2}}}}};
  EXPECT_TRUE(grid_markdown(results).starts_with(
      "| cell | runs | bleu | loss | skips | others |\n|---|---|---|---|---|---|\n"));
  results.baseline = 0;
  EXPECT_EQ(grid_markdown(results),
            "| cell | runs | bleu | loss | skips | others | bleu difference from ln | loss difference from ln |\n"
            "|---|---|---|---|---|---|---|---|\n"
            "| ln | 3 | 26.14 ± 0.54 | 26.1400 ± 0.5351 | 0 |  |  |  |\n"
            "| un | 3 | 25.41 ± 0.54 | 25.4100 ± 0.5369 | 0 |  | -0.73 ± 0.10, p = 0.0067 | "
            "-0.7300 ± 0.1044, p = 0.0067 |\n"
            "| wild | 0 | - | - | 0 | diverged | - | - |\n"
            "| one | 1 | 25.50 | 2.0000 | 0 |  | -0.10 | -23.6000 |\n");
  EXPECT_EQ(grid_json(results)[1]["minus ln"]["bleu"]["values"].size(), 3u);
  EXPECT_NEAR(grid_json(results)[1]["minus ln"]["bleu"]["mean"], -0.73, 1e-12);
}

}  // namespace
}  // namespace foldgrad::testing
