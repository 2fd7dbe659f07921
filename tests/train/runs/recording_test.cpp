// Tests runs with [record]: recording changes no trained bits, the recording contains the right numbers, and a killed
// run ends with the same bits and the same recording.
#include "train/analyses/recording.h"

#include "engine/device.h"
#include "engine/files/safetensors.h"
#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

class RecordingRuns : public TinyRun {
 protected:
  void expect_trained(const std::string& run, const std::string& more) {
    const ProgramResult r = train(run, more);
    EXPECT_EQ(r.exit_code, 0) << more << "\n" << r.err;
  }
  std::string path(const std::string& run, const std::string& phase) {
    return files_ / run + "/statistics/" + phase + ".safetensors";
  }
  // Checks the whole message except the hint to --help.
  void expect_refused(const std::string& settings, const std::string& message) {
    const ProgramResult r = train("refused", settings);
    EXPECT_EQ(r.exit_code, 2) << settings;
    EXPECT_EQ(r.err.substr(0, r.err.find('\n')), "error: " + message) << settings;
    EXPECT_FALSE(exists("refused")) << settings;
  }

  static constexpr const char* kRecord = " --set record.from=[2,-2] --set record.steps=2";
};

TEST_F(RecordingRuns, EndInTheSameBits) {
  struct Row {
    const char *device, *norm;
    int batches;  // in each update
  };
  std::vector<Row> rows = {
      {"cpu", "un", 2}, {"cpu", "bn", 2}, {"cpu", "prepbn", 1}, {"cpu", "ln", 2}, {"cpu", "none", 1}};
  if (cuda_is_emulated()) rows.push_back({"emulated", "un", 2});
  for (const auto& [device, norm, batches] : rows) {
    const std::string name = fmt::format("{}-{}", device, norm);
    const std::string settings = fmt::format(
        "--device {} --set norm.name={} --set train.accumulate={} --set validate.every=5 --set validate.beam=1", device,
        norm, batches);
    expect_trained(name, settings);
    expect_trained(name + "-recorded", settings + kRecord);
    expect_same_numbers(name, name + "-recorded", "step-00000005");
    EXPECT_FALSE(exists(name + "/statistics"));
    std::vector<std::int64_t> begin, end;
    for (int k = 0; k < 2 * batches; ++k) begin.push_back(2 + k / batches), end.push_back(4 + k / batches);
    EXPECT_EQ(read_recording(path(name + "-recorded", "begin")).updates, begin) << name;
    EXPECT_EQ(read_recording(path(name + "-recorded", "end")).updates, end) << name;
  }
}

// After the warm-up, var_hat and psi are averages of q and G. The normalizer's state contains psi, and q of the last
// two iterations, whose geometric mean is var_hat.
TEST_F(RecordingRuns, HaveTheAveragesOfTheNormalizer) {
  expect_trained("run", kRecord);
  const Recording end = read_recording(path("run", "end"));
  const NamedTensors state = read_safetensors(files_ / "run/checkpoints/step-00000005/norm_state.safetensors").tensors;
  ASSERT_EQ(end.sites.size(), 7u);
  EXPECT_EQ(end.normalizer, "un");
  for (const SiteRecording& s : end.sites) {
    const std::vector<float> q = state.at(s.site + ".win_sq").values<float>(),
                             psi = state.at(s.site + ".psi_ema").values<float>();
    for (int c = 0; c < 16; ++c) {
      const double gm = std::sqrt(double(q[c]) * q[16 + c]);
      EXPECT_NEAR(s.var_hat[16 + c], gm, 1e-5 * gm) << s.site;  // recorded as 1/rstd^2 - eps, with an f32 rstd
      EXPECT_NEAR(s.psi[16 + c], psi[c], 1e-5 * std::abs(psi[c]) + 1e-9) << s.site;
    }
  }
}

TEST_F(RecordingRuns, GoOnAfterAKillWithTheSameFile) {
  expect_trained("whole", kRecord);
  for (const char* step : {"step-00000002", "step-00000003", "step-00000004"}) {
    const std::string run = std::string("after-") + step;
    std::filesystem::copy(files_ / "whole", files_ / run, std::filesystem::copy_options::recursive);
    const ProgramResult r = run_program("train --resume " + files_ / run + "/checkpoints/" + step);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_FALSE(contains(r.err, "warning"));
    expect_same_numbers("whole", run, "step-00000005");
    for (const char* phase : {"begin", "end"})
      EXPECT_TRUE(bytes("whole/statistics/" + std::string(phase) + ".safetensors") ==
                  bytes(run + "/statistics/" + phase + ".safetensors"))
          << run << " " << phase;
  }
  // If the recording is lost or damaged, a warning says so, and training continues.
  write_bytes(path("whole", "begin"), "no recording");
  std::filesystem::remove(path("whole", "end"));
  const ProgramResult r = run_program("train --resume " + files_ / "whole/checkpoints/step-00000004");
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_TRUE(contains(r.err, "its earlier values are lost\n"));
  EXPECT_TRUE(contains(r.err, "end.safetensors: is missing, so the recording up to update 4 is lost\n"));
  EXPECT_EQ(read_recording(path("whole", "end")).updates, std::vector<std::int64_t>{5});
}

TEST_F(RecordingRuns, PhasesThatCannotBeAreRefused) {
  expect_refused("--set record.from=[1,2]",
                 "record.from must be an update above 0, counted from the beginning, and then one below 0, counted "
                 "from the end, got [1, 2]");
  expect_refused("--set record.from=[0]",
                 "record.from must not contain 0: the first update is 1, the last is -1, got [0]");
  expect_refused("--set record.from=[1,-3,-2]",
                 "record.from must contain at most two updates, one counted from the beginning and one from the end, "
                 "got [1, -3, -2]");
  expect_refused("--set record.from=[-2] --set record.steps=3",
                 "record.from = -2 with record.steps = 3 begins with update 4 and does not fit into updates 1 to 5 of "
                 "the run (train.steps)");
  expect_refused("--set record.from=[9223372036854775807] --set record.steps=2",
                 "record.from = 9223372036854775807 with record.steps = 2 begins with update 9223372036854775807 and "
                 "does not fit into updates 1 to 5 of the run (train.steps)");
  expect_refused("--set record.from=[-6] --set record.steps=1",
                 "record.from = -6 with record.steps = 1 begins with update 0 and does not fit into updates 1 to 5 of "
                 "the run (train.steps)");
  expect_refused("--set record.from=3", "--set record.from: record.from must be a list of integers, got \"3\"");
  expect_refused("--set 'record.from=[1,true]'", "--set record.from: record.from must be a list of integers, got true");
}

}  // namespace
}  // namespace foldgrad::testing
