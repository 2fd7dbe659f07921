// foldgrad analyze, on runs that were recorded.
#include <filesystem>

#include "engine/files/safetensors.h"
#include "tests/train/tiny_run.h"

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
  ProgramResult analyze(const std::string& arguments) { return run_program("analyze " + arguments); }
  json parsed(const std::string& arguments) {
    const ProgramResult r = analyze(arguments + " --json");
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.exit_code == 0 ? json::parse(r.out) : json();
  }
  void expect_error(int code, const std::string& arguments, const std::string& message) {
    const ProgramResult r = analyze(arguments);
    EXPECT_EQ(r.exit_code, code) << arguments;
    EXPECT_EQ(r.err.substr(0, r.err.find('\n')), "error: " + message) << arguments;
    EXPECT_EQ(r.out, "") << arguments;
  }
  std::string statistics(const std::string& run, const std::string& phase) {
    return files_ / run + "/statistics/" + phase + ".safetensors";
  }
};

TEST_F(Analyze, TellsOfARun) {
  record("run");
  const json pnac = parsed("pnac " + files_ / "run" + " --window 9");
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
  const std::string table = analyze("pnac " + files_ / "run" + " --window 9").out;
  EXPECT_EQ(table.substr(0, table.find('\n')),
            "run: un, PNAC in percent, window 9, begin: 4 windows in updates 1 to 12, end: 4 windows in updates 21 to "
            "32");

  const std::string site = "decoder.layer_norm";
  const json trace = parsed("trace " + files_ / "run" + " --site " + site + " --channel 3 --window 2")[0];
  const std::vector<float> q = read_safetensors(statistics("run", "end")).tensors.at(site + ".q").values<float>();
  EXPECT_EQ(trace["q end"]["updates"][0], 21);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(trace["q end"]["values"][i].get<float>(), q[i * 16 + 3]);
  for (int i = 0; i < 11; ++i)
    EXPECT_LE(trace["q end"]["gm"][i].get<double>(), trace["q end"]["am"][i].get<double>() * (1 + 1e-12));
  EXPECT_GE(parsed("trace " + files_ / "run").size(), 3u);

  const json gradient = parsed("gradient " + files_ / "run")[0];
  const std::vector<float> dx = read_safetensors(statistics("run", "end")).tensors.at(site + ".dx").values<float>();
  ASSERT_EQ(gradient["sites"].size(), 7u);
  EXPECT_EQ(gradient["sites"][6]["site"], site);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(gradient["sites"][6]["cosine end"]["values"][i].get<float>(), dx[3 * i]);
    EXPECT_EQ(gradient["sites"][6]["norm ratio end"]["values"][i].get<float>(), dx[3 * i + 1]);
  }
  // The warm-up ends at 2, the window of 2 is full from 3 on.
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(gradient["sites"][0]["cosine begin"]["values"][i].get<double>(), 1, 1e-6);
    EXPECT_TRUE(gradient["sites"][0]["lambda < 1 begin"]["values"][i].is_null());
  }
  EXPECT_LT(gradient["sites"][0]["cosine begin"]["values"][11].get<double>(), 0.9999);

  // The counters of the last checkpoint are an account of their own.
  const json skips = parsed("skips " + files_ / "run")[0];
  EXPECT_EQ(skips["steps"], (std::vector<int>{10, 20, 40}));
  const NamedTensors state = read_safetensors(files_ / "run/checkpoints/step-00000040/norm_state.safetensors").tensors;
  std::int64_t all = 0;
  for (const json& row : skips["sites"]) {
    const auto counted = std::int64_t(state.at(row["site"].get<std::string>() + ".skips").item());
    EXPECT_EQ(row["skips"][2], counted) << row;
    EXPECT_EQ(row["percent"], 100.0 * double(counted) / 39) << row;  // the warm-up ends at 2
    all += counted;
  }
  EXPECT_EQ(skips["sites"].size(), 7u);
  EXPECT_GT(all, 0);
}

TEST_F(Analyze, ComparesLayersByCka) {
  ASSERT_EQ(train("a").exit_code, 0);
  ASSERT_EQ(train("b", "--set norm.name=ln --set train.seed=2").exit_code, 0);
  const std::string a = files_ / "a", b = files_ / "b", data = " --data-dir " + files_.path();
  const json same = parsed("cka " + a + " " + a + data + " --batch 4 --dtype f64");
  EXPECT_EQ(same["examples"], 8);  // of nine
  EXPECT_EQ(same["layers_a"].size(), 12u);
  EXPECT_EQ(same["layers_a"][1], "encoder.layers.0.self_attn");
  for (int i = 0; i < 12; ++i) {
    EXPECT_NEAR(same["cka"][i][i].get<double>(), 1, 1e-12);
    for (int j = 0; j < i; ++j) EXPECT_NEAR(same["cka"][i][j].get<double>(), same["cka"][j][i].get<double>(), 1e-12);
  }
  const json other = parsed("cka " + a + " " + b + data + " --batch 9 --plot " + files_ / "cka.svg");
  EXPECT_TRUE(contains(bytes("cka.svg"), fmt::format("<title>3, 2: {:.4f}</title>", other["cka"][1][2].get<double>())));
  const auto cka = other["cka"][0][0].get<double>();
  EXPECT_LT(cka, 0.999);
  const std::string table = analyze("cka " + a + " " + b + data + " --batch 9").out;
  EXPECT_EQ(table.substr(0, table.find('\n')), "CKA of a and b: 9 examples in batches of 9");
  EXPECT_TRUE(contains(table, fmt::format(" 1  {:.4f} ", cka))) << table;

  const std::string pair = "cka " + a + " " + b;
  expect_error(2, pair + data + " --batch 3", "--batch must be at least 4: the estimate divides by n - 3, got 3");
  expect_error(2, pair + data + " --batch 8 --examples 7", "--batch must be at most --examples = 7, got 8");
  expect_error(2, pair + data + " --batch 10",
               "--batch must be at most 9, the validation examples of " + a + ", got 10");
  write_bytes(files_ / "valid.en", bytes("valid.en").replace(0, 3, "tor"));
  ASSERT_EQ(train("c", "--set data.valid=train").exit_code, 0);
  expect_error(2, "cka " + a + " " + files_ / "c" + data + " --batch 9",
               "cka compares models on the same examples, but " + a + " and " + files_ / "c" +
                   " are validated on different data");
}

TEST_F(Analyze, SaysWhatIsWrong) {
  record("run");
  record("other", "--set norm.name=ln");
  ASSERT_EQ(train("plain").exit_code, 0);
  const std::string run = files_ / "run", plain = files_ / "plain", other = files_ / "other";
  expect_error(2, "cka " + run + " " + other + " --plot x.png", "--plot: must end with .svg, got x.png");
  expect_error(3, "pnac " + plain,
               plain + ": has no recordings: it must have been trained with record.from, such as [100, -200]");
  expect_error(
      3, "gradient " + other,
      other +
          ": has no gradients to compare: no site has SITE.dx, which is recorded of normalizers by mean squares "
          "over positions, such as un with mode = \"paper\"; this is ln");
  expect_error(2, "pnac " + run, "--window must be at most 12, the iterations that are recorded, got 32");
  expect_error(2, "pnac " + run + " --window 7",
               "--window must be at least 8, the least sample of the test of normality, got 7");
  expect_error(2, "trace " + run + " --window 13",
               "--window must be in [1, 12], the iterations that are recorded, got 13");
  expect_error(2, "trace " + run + " --site decoder.layer_norm --channel 16",
               "--channel must be below 16, the channels of decoder.layer_norm, got 16");
  const ProgramResult missing = analyze("trace " + run + " --site decoder.layer_nrm");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.err, "--site decoder.layer_nrm: is not recorded; did you mean \"decoder.layer_norm\"?"))
      << missing.err;
  expect_error(3, "skips " + other, other + "/log.jsonl: reports no skips: the run's normalizers have no outlier test");
  const auto put = [](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  };
  put(statistics("other", "end"), statistics("run", "end"));
  expect_error(3, "pnac " + run + " --window 9",
               statistics("run", "end") + ": is a recording of another model than begin.safetensors");
  put(statistics("other", "begin"), statistics("run", "begin"));
  expect_error(3, "pnac " + run + " --window 9",
               statistics("run", "begin") +
                   ": is a recording of another model: its normalizer is ln, that of the run's config.toml un");
}

}  // namespace
}  // namespace foldgrad::testing
