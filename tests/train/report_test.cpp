#include "train/report.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/file.h"
#include "tests/engine/error_message.h"
#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

constexpr const char* kLog = R"({"event":"start","step":0,"steps":9,"norm":"un","parameters":1200,"device":"cpu"}
{"event":"train","step":5,"loss":3.5,"gradient_norm":2.0,"lr":0.1,"tokens_per_second":10.0,"seconds":61.0}
{"event":"validate","step":5,"loss":2.5,"perplexity":12.25,"bleu":7.125,"bleu_signature":"tok:13a","chrf":30.0,"seconds":1.0}
{"event":"layers","step":5,"gradient_norms":{"encoder.layers.0":0.5},"normalizers":{"encoder.layers.0.final_layer_norm":{"iterations":5,"skips":2,"least_variance":0.5,"greatest_variance":3.0},"decoder.layer_norm":{"iterations":5,"skips":1}}}
{"event":"not_finite","step":7,"action":"skip","message":"a<b & c"}
{"event":"train","step":9,"loss":null,"gradient_norm":1.0,"lr":0.1,"tokens_per_second":10.0,"seconds":2.0}
{"event":"validate","step":9,"loss":2.0,"perplexity":7.5,"bleu":7.0,"bleu_signature":"tok:13a","chrf":31.0,"seconds":1.0}
{"event":"end","step":9,"outcome":"finished"}
)";

class Report : public ::testing::Test {
 protected:
  std::string run(const std::string& name, const std::string& log) {
    std::filesystem::create_directory(files_ / name);
    write_bytes(files_ / name + "/log.jsonl", log);
    return files_ / name;
  }
  std::string refusal(const std::string& path) {
    return message<FileError>([&] { read_run_log(path); });
  }
  TemporaryDirectory files_;
};

TEST_F(Report, SummaryOfALog) {
  const RunSummary s = summary_of(read_run_log(run("a", kLog) + "/"));
  EXPECT_EQ(s.name, "a");
  EXPECT_EQ(s.norm, "un");
  EXPECT_EQ(s.outcome, "finished");
  EXPECT_EQ(s.steps, 9);
  EXPECT_EQ(s.skips, 3);
  EXPECT_EQ(s.failures, 1);
  EXPECT_EQ(s.seconds, 65);
  ASSERT_TRUE(s.best);
  EXPECT_EQ(s.best->step, 5);
  EXPECT_EQ(s.best->perplexity, 12.25);
  EXPECT_EQ(
      comparison_table({s}),
      "run  normalizer  parameters  steps   outcome  best step  perplexity  BLEU  signature  chrF2  skips  not "
      "finite  time\n"
      "a            un        1200      9  finished          5      12.250  7.12    tok:13a  30.00      3         "
      "  1  1:05\n");
}

TEST_F(Report, LogsOfRunsThatGoOn) {
  const std::string start = std::string(kLog).substr(0, std::string(kLog).find('\n') + 1);
  EXPECT_EQ(summary_of(read_run_log(run("a", start + "{\"event\":\"tra"))).outcome, "unfinished");
  const std::string diverged = start + "{\"event\":\"diverged\",\"step\":3,\"message\":\"m\"}\n";
  EXPECT_EQ(summary_of(read_run_log(run("b", diverged))).outcome, "diverged");
  EXPECT_EQ(refusal(run("c", start + "[]\n")), files_ / "c/log.jsonl: line 2 is no event");
  EXPECT_EQ(refusal(files_ / "d"), files_ / "d/log.jsonl: cannot be opened: No such file or directory");
}

TEST_F(Report, PlotsOfRunsTogetherAndOfLayersOneByOne) {
  const auto plots = report_plots({read_run_log(run("a", kLog)), read_run_log(run("b", kLog))});
  ASSERT_EQ(plots.size(), 7u + 2 * 4);  // there is no AM / GM
  EXPECT_EQ(plots[0].title, "Training loss");
  ASSERT_EQ(plots[0].series.size(), 2u);
  EXPECT_EQ(plots[0].series[1].name, "b");
  EXPECT_EQ(plots[0].series[1].points, (std::vector<std::pair<double, double>>{{5, 3.5}}));  // null is left out
  EXPECT_EQ(plots.back().title, "b: skips since the beginning");
  EXPECT_EQ(plots.back().series[0].name, "encoder.0.final");
  EXPECT_EQ(plots.back().series[0].points, (std::vector<std::pair<double, double>>{{5, 2}}));
}

TEST_F(Report, PageHoldsTablesAndPlots) {
  const std::vector<RunLog> runs{read_run_log(run("a", kLog))};
  const std::string html = report_html(runs), path = std::getenv("PATH");
  for (const char* part :
       {"<title>a</title>", "<td>12.250</td>", "a&lt;b &amp; c", "encoder.layers.0.final_layer_norm"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  const auto count = [&](const std::string& text) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = html.find(text, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  const bool has_gnuplot = std::system("gnuplot --version >/dev/null 2>&1") == 0;
  EXPECT_EQ(count("<svg"), has_gnuplot ? report_plots(runs).size() : 0);
  EXPECT_EQ(count("</svg>"), count("<svg"));
  EXPECT_EQ(count("gnuplot was not found"), has_gnuplot ? 0 : 1);
  EXPECT_EQ(count("http"), count("xmlns"));  // it needs no other file
  setenv("PATH", "/nowhere", 1);
  EXPECT_NE(report_html(runs).find("gnuplot was not found"), std::string::npos);
  setenv("PATH", path.c_str(), 1);
}

TEST_F(Report, QuotesInNames) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot here";
  const auto pictures =
      draw({{"it's a 'title'\nx", "x", "y", true, {{"l'un", {{1, 2}, {2, 0}}}}}, {"none", "x", "y", false, {}}});
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_NE(pictures[0].find("it's a 'title' x"), std::string::npos);
}

TEST_F(Report, EqualNamesOfRunsAreToldApart) {
  std::filesystem::create_directory(files_ / "x");
  std::filesystem::create_directory(files_ / "y");
  const ProgramResult table = run_program("compare --json " + run("x/un", kLog) + " " + run("y/un", kLog));
  const auto rows = nlohmann::json::parse(table.out);
  EXPECT_EQ(rows.at(0).at("name"), "x/un");
  EXPECT_EQ(rows.at(1).at("name"), "y/un");
  const ProgramResult twice = run_program("compare " + files_ / "x/un" + " " + files_ / "x/un");
  EXPECT_EQ(twice.exit_code, 2);
}

TEST_F(Report, Commands) {
  run("a", kLog);
  const ProgramResult report = run_program("report " + files_ / "a"),
                      table = run_program("compare --json " + files_ / "a"),
                      absent = run_program("compare " + files_ / "b");
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_EQ(report.out, files_ / "a/report.html\n");
  EXPECT_EQ(read_bytes(files_ / "a/report.html").rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_EQ(nlohmann::json::parse(table.out).at(0).at("best").at("bleu"), 7.125);
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_EQ(absent.err, "error: " + files_ / "b/log.jsonl: cannot be opened: No such file or directory\n");
}

}  // namespace
}  // namespace foldgrad::testing
