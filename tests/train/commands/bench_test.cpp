#include <nlohmann/json.hpp>

#include "tests/train/program.h"
#include "train/commands/infer_bench.h"
#include "train/commands/load_transformer.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

const std::string kTiny = "bench infer --rounds 2 --width 16 --layers 1 --beam 2 ";

TEST(BenchCommand, SetsNormalizersSideBySide) {
  const ProgramResult bench = run_program(kTiny + "--batches 2 --lengths 3 --dtypes bf16");
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_EQ(bench.out.substr(0, bench.out.find('\n')), "bf16, batch 2, length 3");
  std::size_t at = 0;
  for (const char* task : {"\nencoder ", "\ntoken ", "\ngreedy ", "\nbeam "})
    for (const char* normalizer : {" ln ", " rmsnorm ", " un ", " un_folded ", " none "}) {
      at = bench.out.find(task, at);
      ASSERT_NE(at, std::string::npos) << task << normalizer << " is missing or too early in\n" << bench.out;
      EXPECT_EQ(bench.out.find(normalizer, at + 1), at + 10) << bench.out;
      ++at;
    }
}

// Which is faster is not for a test to say, but what the figures have to do with each other is.
TEST(BenchCommand, WritesFiguresOfEverySweep) {
  const TemporaryDirectory files;
  const ProgramResult bench = run_program(kTiny + "--batches 1,3 --lengths 2,4 --normalizers un,none --json " +
                                          files / "costs.json" + " --save " + files / "models");
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  const json costs = json::parse(read_bytes(files / "costs.json"));
  EXPECT_EQ(costs.at("time"), "wall");
  ASSERT_EQ(costs.at("results").size(), 2u * 2 * 2 * 4 * 3);  // dtypes, batches, lengths, tasks, models
  std::size_t tables = 0;
  for (std::size_t at = 0; (at = bench.out.find("median ms", at)) != std::string::npos; ++at) ++tables;
  EXPECT_EQ(tables, 2u * 2 * 2);  // one for each dtype, batch and length
  for (const json& cost : costs.at("results")) {
    const double tokens =
        cost.at("batch").get<double>() * (cost.at("task") == "token" ? 1 : cost.at("length").get<double>());
    EXPECT_NEAR(cost.at("tokens_per_second").get<double>() * cost.at("median_ms").get<double>() / (1e3 * tokens), 1,
                1e-9);
    EXPECT_GE(cost.at("p90_ms"), cost.at("median_ms"));
    EXPECT_GT(cost.at("median_ms"), 0);
    EXPECT_GT(cost.at("peak_bytes"), 16 * (8848 + 6632) * 4);  // tables of embeddings alone
    if (cost.at("normalizer") == "none") {
      EXPECT_EQ(cost.at("over_none"), 1);
    }
  }
  EXPECT_EQ(load_transformer(files / "models/un")->config().normalizer, "un");
  EXPECT_EQ(load_transformer(files / "models/un_folded")->config().normalizer, "none");
}

TEST(BenchCommand, TabulatesMillisecondsAndMegabytes) {
  const InferCost ln{"token", "ln", "f32", 2, 3, 0.25, 0.5, 12345.6, 7e6, 1.25},
      none{"token", "none", "f32", 4, 3, 2, 3, 4, 5e6, std::nullopt};
  EXPECT_EQ(cost_table({ln, none}),
            "f32, batch 2, length 3\n"
            "task      normalizer        median ms     p90 ms   tokens/s  peak MB   / none\n"
            "token     ln                  250.000    500.000      12346        7    1.250\n"
            "\n"
            "f32, batch 4, length 3\n"
            "task      normalizer        median ms     p90 ms   tokens/s  peak MB   / none\n"
            "token     none               2000.000   3000.000          4        5        -\n");
}

TEST(BenchCommand, Draws) {
  const TemporaryDirectory files;
  const ProgramResult bench =
      run_program(kTiny + "--batches 1,2 --lengths 2,3 --dtypes f32 --plot " + files / "costs.svg");
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) {
    EXPECT_EQ(bench.err, "error: plots need the program gnuplot (apt-get install gnuplot-nox)\n");
    GTEST_SKIP() << "no gnuplot here";
  }
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  const std::string svg = read_bytes(files / "costs.svg");
  std::size_t pictures = 0;
  for (std::size_t at = 0; (at = svg.find("<svg", at)) != std::string::npos; ++at) ++pictures;
  EXPECT_EQ(pictures, 1u + 4 * 4);  // tasks, and for each throughput and ratio against length and against batch
  for (const char* text : {"encoder, f32", "length, batch 2", "batch, length 3", "time / time of none", "un_folded"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
}

TEST(BenchCommand, Messages) {
  const auto error_of = [](const std::string& arguments) { return run_program("bench infer " + arguments).err; };
  EXPECT_EQ(error_of("--dtypes f32,f16"), "error: bench: dtype must be f32 or bf16, got f16\n");
  EXPECT_EQ(error_of("--lengths 8,2000"), "error: bench: lengths must be at most max_positions = 1024, got 2000\n");
}

}  // namespace
}  // namespace foldgrad::testing
