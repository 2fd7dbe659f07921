#include "train/runs/resume.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/program.h"
#include "train/checks/finite.h"
#include "train/commands/exit_codes.h"
#include "train/system/device.h"

namespace foldgrad::testing {
namespace {

RunState state_of(bool averaged) {
  RunState s;
  s.training.parameters = {{"w", Tensor::of<float>({2}, {1, 2})}};
  s.training.optimizer = {{"step", Tensor::of<std::int64_t>({}, {4})}, {"exp_avg.w", Tensor::of<float>({2}, {5, 6})}};
  s.training.normalizers = {{"a.iters", Tensor::of<std::int64_t>({}, {4})}};
  if (averaged) s.training.average = {{"w", Tensor::of<float>({2}, {7, 8})}};
  s.training.cursor = {3, 9};
  s.training.since_report = {.loss = 0.1 + 0.7, .seconds = 1.5, .weight = 11, .work = 13};
  s.best = {2, 0.1 + 0.2, 1.75, "BLEU 0.3"};
  s.without_better = 5;
  return s;
}

TEST(Resume, CheckpointsHoldTheWholeState) {
  for (const bool averaged : {false, true}) {
    const RunState want = state_of(averaged);
    const CheckpointContents c = to_checkpoint(want, 4, "hash", 77);
    EXPECT_EQ(c.step, 4);
    EXPECT_EQ(c.config_hash, "hash");
    EXPECT_EQ(c.log_offset, 77u);
    EXPECT_EQ(c.model.at("w").values<float>(), averaged ? std::vector<float>({7, 8}) : std::vector<float>({1, 2}));
    const RunState got = from_checkpoint(c, "c");
    EXPECT_TRUE(same_bits(got.training.parameters, want.training.parameters));
    EXPECT_TRUE(same_bits(got.training.optimizer, want.training.optimizer));
    EXPECT_TRUE(same_bits(got.training.normalizers, want.training.normalizers));
    EXPECT_TRUE(same_bits(got.training.average, want.training.average));
    EXPECT_EQ(got.training.cursor, want.training.cursor);
    EXPECT_TRUE(got.training.since_report == want.training.since_report);
    EXPECT_EQ(got.best.step, 2);
    EXPECT_EQ(got.best.score, 0.1 + 0.2);
    EXPECT_EQ(got.best.loss, 1.75);
    EXPECT_EQ(got.best.text, "BLEU 0.3");
    EXPECT_EQ(got.without_better, 5);
  }
}

// The checkpoint is the model that was validated; what training goes on from lies beside its moments.
TEST(Resume, CheckpointsHoldAveragedStatisticsInThePlaceOfThoseInTraining) {
  RunState want = state_of(true);
  want.training.normalizers["a.run_var"] = Tensor::of<float>({1}, {2});
  want.training.average["a.run_var"] = Tensor::of<float>({1}, {3});
  const CheckpointContents c = to_checkpoint(want, 4, "hash", 77);
  EXPECT_EQ(c.norm_state.at("a.run_var").item(), 3);
  EXPECT_EQ(c.norm_state.size(), 2u);
  EXPECT_EQ(c.model.size(), 1u);
  const RunState got = from_checkpoint(c, "c");
  EXPECT_TRUE(same_bits(got.training.normalizers, want.training.normalizers));
  EXPECT_TRUE(same_bits(got.training.average, want.training.average));
  EXPECT_TRUE(same_bits(got.training.optimizer, want.training.optimizer));
}

TEST(Resume, AmongEqualScoresTheSmallerLossIsBetter) {
  BestValidation best;
  EXPECT_TRUE(best.worse_than(0, 5));
  EXPECT_TRUE(best.worse_than(-1e9, 5));  // a score may be negative, as minus a loss is
  best = {1, 0, 5, ""};
  EXPECT_TRUE(best.worse_than(0, 4));
  EXPECT_TRUE(best.worse_than(0.5, 6));
  EXPECT_FALSE(best.worse_than(0, 5));
  EXPECT_FALSE(best.worse_than(-1, 4));
  EXPECT_FALSE(best.worse_than(0, std::nan("")));
}

TEST(Resume, ReadsWhatVersion_0_2_0CountedSinceTheLastReport) {
  CheckpointContents c = to_checkpoint(state_of(false), 4, "hash", 77);
  c.state["since_report"] = {{"loss", 0.5}, {"seconds", 1.5}, {"source_tokens", 4}, {"target_tokens", 7}};
  const ReportSums want{.loss = 0.5, .seconds = 1.5, .weight = 7, .work = 11};
  EXPECT_TRUE(from_checkpoint(c, "c").training.since_report == want);
}

TEST(Resume, RefusesTheCheckpointOfAnotherProgram) {
  CheckpointContents c = to_checkpoint(state_of(false), 4, "hash", 77);
  c.state.erase("batch");
  EXPECT_EQ(message<CheckpointError>([&] {
              from_checkpoint(c, "runs/a/checkpoints/step-00000004");
            }).rfind("runs/a/checkpoints/step-00000004: state.json is not that of a training run: ", 0),
            0u);
}

TEST(Resume, RefusesAnotherConfigurationAndNamesWhatHasChanged) {
  const TemporaryDirectory directory;
  const std::string file = directory / "config.toml";
  ExperimentConfig before, now;
  now.train.lr = 0.25;
  now.output.keep = 1;  // changes nothing that is trained
  write_bytes(file, config_text(before));
  NewestCheckpoint checkpoint{"c/step-00000001", contents_of_step(1), {}};
  checkpoint.contents.config_hash = config_hash(before);
  EXPECT_NO_THROW(require_same_trajectory(checkpoint, before, file, false));
  EXPECT_NO_THROW(require_same_trajectory(checkpoint, now, file, true));
  const std::string start =
                        "c/step-00000001: the configuration has changed, so that training would not go on as it "
                        "began: ",
                    end = ". --allow-config-change accepts that";
  EXPECT_EQ(message<CheckpointError>([&] { require_same_trajectory(checkpoint, now, file, false); }),
            start + "train.lr: 0.0005 before, 0.25 now" + end);
  EXPECT_EQ(message<CheckpointError>([&] { require_same_trajectory(checkpoint, now, directory / "none", false); }),
            start + "hash " + config_hash(before) + " before, " + config_hash(now) + " now" + end);
}

TEST(ExitCodes, OneForEachKindOfException) {
  const auto code = [](const auto& exception) {
    ::testing::internal::CaptureStderr();
    const int code = guarded([&]() -> int { throw exception; });
    return std::to_string(code) + " " + ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(guarded([] { return 42; }), 42);
  EXPECT_EQ(code(ConfigError("text")), "2 error: text\n");
  EXPECT_EQ(code(std::invalid_argument("text")), "2 error: text\n");
  EXPECT_EQ(code(FileError("path", "text")), "3 error: path: text\n");
  EXPECT_EQ(code(CheckpointError("text")), "4 error: text\n");
  EXPECT_EQ(code(Diverged("text")), "5 error: diverged: text\n");
  EXPECT_EQ(code(NonFiniteError("text")), "5 error: text\n");
  EXPECT_EQ(code(DeviceError("text")), "6 error: text\n");
  EXPECT_EQ(code(std::bad_alloc()), "6 error: memory is used up\n");
  EXPECT_EQ(code(std::runtime_error("text")), "1 error: text\n");
}

}  // namespace
}  // namespace foldgrad::testing
