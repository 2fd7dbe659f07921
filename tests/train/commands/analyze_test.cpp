// foldgrad analyze, on recorded runs.
#include <filesystem>

#include "engine/files/safetensors.h"
#include "tests/train/tiny_run.h"
#include "train/analyses/outliers.h"
#include "train/analyses/pnac.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

class Analyze : public TinyRun {
 protected:
  void record(const std::string& run, const std::string& more = "") {
    const ProgramResult r = train(run,
                                  "--set record.from=[1,-20] --set record.steps=12 --set train.steps=40 "
                                  "--set validate.every=10 --set norm.un.filtration=true " +
                                      more);
    ASSERT_EQ(r.exit_code, 0) << r.err;
  }
  json analyzed(const std::string& arguments) { return parsed("analyze " + arguments + " --json"); }
  std::string statistics(const std::string& run, const std::string& phase) {
    return files_ / run + "/statistics/" + phase + ".safetensors";
  }
  std::vector<float> recorded(const std::string& name) {
    return read_safetensors(statistics("run", "end")).tensors.at(name).values<float>();
  }

  void expect_pnac() {
    const json pnac = analyzed("pnac @run --window 9");
    EXPECT_EQ(pnac[0]["window"], 9);
    ASSERT_EQ(pnac[0]["sites"].size(), 7u);
    EXPECT_EQ(pnac[0]["sites"][0]["site"], "encoder.layers.0.self_attn_layer_norm");
    for (const json& site : pnac[0]["sites"])
      for (const char* curve : {"q begin", "G begin", "noise begin", "q end", "G end", "noise end"}) {
        ASSERT_EQ(site[curve]["values"].size(), 4u) << curve;
        double sum = 0;
        for (const double v : site[curve]["values"]) sum += v;
        EXPECT_NEAR(site[curve]["mean"], sum / 4, 1e-12);
      }
    for (const std::string values : {"q", "G"})
      EXPECT_EQ(pnac[0]["sites"][6][values + " end"]["values"],
                foldgrad::pnac(recorded("decoder.layer_norm." + values), 16, 9));
    const std::string table = run("analyze pnac @run --window 9").out;
    EXPECT_EQ(
        table.substr(0, table.find('\n')),
        "run: un, PNAC in percent, window 9, begin: 4 windows in updates 1 to 12, end: 4 windows in updates 21 to "
        "32");
  }

  void expect_trace() {
    const json trace = analyzed("trace @run --site decoder.layer_norm --channel 3 --window 2")[0];
    const std::vector<float> q = recorded("decoder.layer_norm.q");
    EXPECT_EQ(trace["q end"]["updates"][0], 21);
    for (int i = 0; i < 12; ++i) EXPECT_EQ(trace["q end"]["values"][i].get<float>(), q[i * 16 + 3]);
    for (int i = 0; i < 11; ++i)
      EXPECT_LE(trace["q end"]["gm"][i].get<double>(), trace["q end"]["am"][i].get<double>() * (1 + 1e-12));
    EXPECT_GE(analyzed("trace @run").size(), 3u);
  }

  void expect_gradient() {
    const json gradient = analyzed("gradient @run")[0];
    const std::vector<float> dx = recorded("decoder.layer_norm.dx");
    ASSERT_EQ(gradient["sites"].size(), 7u);
    EXPECT_EQ(gradient["sites"][6]["site"], "decoder.layer_norm");
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(gradient["sites"][6]["cosine end"]["values"][i].get<float>(), dx[3 * i]);
      EXPECT_EQ(gradient["sites"][6]["norm ratio end"]["values"][i].get<float>(), dx[3 * i + 1]);
    }
    // The warm-up ends at 2; the window of 2 is full starting at 3.
    for (int i = 0; i < 2; ++i) {
      EXPECT_NEAR(gradient["sites"][0]["cosine begin"]["values"][i].get<double>(), 1, 1e-6);
      EXPECT_TRUE(gradient["sites"][0]["lambda < 1 begin"]["values"][i].is_null());
    }
    EXPECT_LT(gradient["sites"][0]["cosine begin"]["values"][11].get<double>(), 0.9999);
  }

  // Compares the skips with the counters of the last checkpoint, which count independently.
  void expect_skips() {
    const json skips = analyzed("skips @run")[0];
    EXPECT_EQ(skips["steps"], (std::vector<int>{10, 20, 40}));
    const NamedTensors state =
        read_safetensors(files_ / "run/checkpoints/step-00000040/norm_state.safetensors").tensors;
    std::int64_t all = 0;
    for (const json& row : skips["sites"]) {
      const auto counted = std::int64_t(state.at(row["site"].get<std::string>() + ".skips").item());
      EXPECT_EQ(row["skips"][2], counted) << row;
      EXPECT_EQ(row["percent"], 100.0 * double(counted) / 38) << row;  // the window is full starting at 3
      all += counted;
    }
    EXPECT_EQ(skips["sites"].size(), 7u);
    EXPECT_GT(all, 0);
    EXPECT_EQ(skips["sites"][6]["outliers"]["recorded end"],
              percent_of_outliers({{"window", "2"}}, recorded("decoder.layer_norm.q"), 16));
    const std::string table = run("analyze skips @run").out;
    for (const char* phase : {"begin", "end"})
      for (const char* values : {"recorded", "shuffled", "normal"})
        EXPECT_TRUE(contains(table.substr(0, table.find("\nencoder")), fmt::format("% {} {}", values, phase)));
    std::istringstream last(table.substr(table.rfind("all ") + 4));
    std::int64_t totals[3] = {};
    last >> totals[0] >> totals[1] >> totals[2];
    EXPECT_EQ(totals[2], all);
    EXPECT_LT(totals[0], all);
  }

  void expect_cka() {
    const json same = analyzed("cka @run @run --data-dir @ --batch 4 --dtype f64");
    EXPECT_EQ(same["examples"], 8);  // of nine
    EXPECT_EQ(same["layers_a"].size(), 12u);
    EXPECT_EQ(same["layers_a"][1], "encoder.layers.0.self_attn");
    for (int i = 0; i < 12; ++i) {
      EXPECT_NEAR(same["cka"][i][i].get<double>(), 1, 1e-12);
      for (int j = 0; j < i; ++j) EXPECT_NEAR(same["cka"][i][j].get<double>(), same["cka"][j][i].get<double>(), 1e-12);
    }
    const std::string pair = "cka @run @other --data-dir @ --batch 9";
    const json other = analyzed(pair + " --plot @cka.svg");
    EXPECT_TRUE(
        contains(bytes("cka.svg"), fmt::format("<title>3, 2: {:.4f}</title>", other["cka"][1][2].get<double>())));
    const auto cka = other["cka"][0][0].get<double>();
    EXPECT_LT(cka, 0.999);
    const std::string table = run("analyze " + pair).out;
    EXPECT_EQ(table.substr(0, table.find('\n')), "CKA of run and other: 9 examples in batches of 9");
    EXPECT_TRUE(contains(table, fmt::format(" 1  {:.4f} ", cka)));
  }

  void expect_cka_errors() {
    const std::string pair = "analyze cka @run @other --data-dir @ ";
    expect_failure(run(pair + "--plot x.png"), 2, "error: --plot: must end with .svg, got x.png\n");
    expect_error(pair + "--batch 3", 2, "--batch must be at least 4: the estimate divides by n - 3, got 3");
    expect_error(pair + "--batch 8 --examples 7", 2, "--batch must be at most --examples = 7, got 8");
    expect_error(pair + "--batch 10", 2, "--batch must be at most 9, the validation examples of @run, got 10");
    write_bytes(files_ / "valid.en", bytes("valid.en").replace(0, 3, "tor"));
    ASSERT_EQ(train("plain", "--set data.valid=train").exit_code, 0);
    expect_error("analyze cka @run @plain --data-dir @ --batch 9", 2,
                 "cka compares models on the same examples, but @run and @plain are validated on different data");
    expect_error("analyze pnac @plain", 3,
                 "@plain: has no recordings: it must have been trained with record.from, such as [100, -200]");
  }

  void expect_errors() {
    expect_error(
        "analyze gradient @other", 3,
        "@other: has no gradients to compare: no site has SITE.dx, which is recorded of normalizers by mean squares "
        "over positions, such as un with mode = \"paper\"; this is ln");
    expect_error("analyze pnac @run", 2, "--window must be at most 12, the iterations that are recorded, got 32");
    expect_error("analyze trace @run --site decoder.layer_norm --channel 16", 2,
                 "--channel must be below 16, the channels of decoder.layer_norm, got 16");
    expect_failure(run("analyze trace @run --site decoder.layer_nrm"), 2,
                   "--site decoder.layer_nrm: is not recorded; did you mean \"decoder.layer_norm\"?");
    expect_error("analyze skips @other", 3,
                 "@other/log.jsonl: reports no skips: the run's normalizers have no outlier test");
    const auto put = [this](const std::string& phase) {
      std::filesystem::copy_file(statistics("other", phase), statistics("run", phase),
                                 std::filesystem::copy_options::overwrite_existing);
    };
    put("end");
    expect_error("analyze pnac @run --window 9", 3,
                 "@run/statistics/end.safetensors: is a recording of another model than begin.safetensors");
    put("begin");
    expect_error("analyze pnac @run --window 9", 3,
                 "@run/statistics/begin.safetensors: is a recording of another model: its normalizer is ln, that of "
                 "the run's config.toml un");
  }
};

TEST_F(Analyze, TellsOfRunsAndSaysWhatIsWrong) {
  record("run");
  record("other", "--set norm.name=ln --set train.seed=2");
  expect_pnac();
  expect_trace();
  expect_gradient();
  expect_skips();
  expect_cka();
  expect_cka_errors();
  expect_errors();
}

}  // namespace
}  // namespace foldgrad::testing
