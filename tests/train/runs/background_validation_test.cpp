// Runs with validate.background: what is trained and kept is that of runs that wait for their validations.
#include "train/runs/background_validation.h"

#include <atomic>
#include <thread>

#include "engine/cuda_devices.h"
#include "tests/engine/error_message.h"
#include "tests/train/runs/classification_run.h"
#include "tests/train/runs/toy_family.h"

namespace foldgrad::testing {
namespace {

// With it no weight moves, so that no later validation is better than the first.
const std::vector<std::string> kStill = {"train.lr=1e-30", "train.initial_lr=0", "norm.name=ln"};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class BackgroundRuns : public ToyFamily {
 protected:
  int train_beside(const std::string& out, const std::string& resume = "",
                   const std::vector<std::string>& settings = {}) {
    return train(out, resume, settings + std::vector<std::string>{"validate.background=true"});
  }
  // In a process of its own, which a signal reaches before that batch.
  void stop_beside(const char* signal_at, const char* batch, const ::testing::ExitedWithCode& code,
                   const std::vector<std::string>& settings) {
    setenv(signal_at, batch, 1);
    EXPECT_EXIT(exit(train_beside("part", "", settings)), code, "");
    unsetenv(signal_at);
  }
  std::string best(const std::string& run) { return bytes(run + "/checkpoints/BEST"); }
  // Step and loss of each validation.
  std::vector<std::pair<std::int64_t, double>> validations(const std::string& run) {
    std::vector<std::pair<std::int64_t, double>> all;
    for (const auto& event : events(run, "validate")) all.emplace_back(event.at("step"), event.at("loss"));
    return all;
  }

  ~BackgroundRuns() override { ToyTask::when_drawing = nullptr, ToyTask::when_validating = nullptr; }
};

TEST_F(BackgroundRuns, TrainAndValidateTheSameBits) {
  for (const std::string average : {"train.average_decay=0", "train.average_decay=0.5"}) {
    for (const std::string save : {"5", "10", "100"}) {
      const std::vector<std::string> settings{average, "output.save_every=" + save};
      const std::string name = average + save;
      ASSERT_EQ(train("waits" + name, "", settings), 0);
      ASSERT_EQ(train_beside("beside" + name, "", settings), 0);
      expect_same_numbers("beside" + name, "waits" + name, "step-00000040");
      EXPECT_EQ(validations("beside" + name), validations("waits" + name)) << name;
      EXPECT_EQ(validations("beside" + name).size(), 4u);
      EXPECT_EQ(best("beside" + name), best("waits" + name)) << name;
      EXPECT_EQ(bytes("beside" + name + "/samples/step-00000010.txt"), "a point\n");
    }
  }
}

// Each validation but the last waits for the second batch after it, and that batch until the validation has begun: they
// meet only where both are under way at once.
TEST_F(BackgroundRuns, TrainWhileTheyValidate) {
  std::atomic<std::int64_t> begun = 0, drawn = 0, met = 0;
  const auto wait_until = [](const auto& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  };
  ToyTask::when_drawing = [&](std::int64_t batch) {
    drawn = batch;
    if (batch % 10 == 2 && batch > 10) met += wait_until([&] { return begun >= batch / 10; });
  };
  ToyTask::when_validating = [&] {
    const std::int64_t k = ++begun;
    if (k < 4) met += wait_until([&] { return drawn >= 10 * k + 2; });
  };
  ASSERT_EQ(train_beside("run", "", {"output.save_every=100"}), 0);
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(met, 6);
}

TEST_F(BackgroundRuns, KeepTheBestCheckpointWhenItTurnsOutToBeThat) {
  const std::vector<std::string> settings = kStill + std::vector<std::string>{"output.save_every=100"};
  ASSERT_EQ(train("waits", "", settings), 0);
  ASSERT_EQ(train_beside("beside", "", settings), 0);
  EXPECT_EQ(best("beside"), "step-00000010\n");
  EXPECT_EQ(best("waits"), "step-00000010\n");
  expect_same_numbers("beside", "waits", "step-00000010");
  EXPECT_FALSE(exists("beside/checkpoints/step-00000020"));
  // It is whole: training can go on from it, and validates it once more.
  std::filesystem::remove_all(files_ / "beside/checkpoints/step-00000040");
  ASSERT_EQ(train_beside("beside", "latest", settings), 0);
  expect_same_numbers("beside", "waits", "step-00000040");
  EXPECT_EQ(validations("beside"), validations("waits"));
  EXPECT_EQ(best("beside"), "step-00000010\n");
}

TEST_F(BackgroundRuns, LosePatienceOneValidationLater) {
  const std::vector<std::string> settings = kStill + std::vector<std::string>{"validate.patience=1"};
  ASSERT_EQ(train("waits", "", settings), 0);
  EXPECT_EQ(events("waits", "end").at(0).at("step"), 20);
  ASSERT_EQ(train_beside("beside", "", settings), 0);
  EXPECT_EQ(events("beside", "end").at(0).at("step"), 30);
  EXPECT_EQ(validations("beside"), validations("waits"));
  // A signal has a validation end early, and then training lasts as long.
  stop_beside("TOY_INTERRUPTED_AT", "25", ::testing::ExitedWithCode(130), settings);
  EXPECT_EQ(validations("part"), validations("waits"));
  ASSERT_EQ(train_beside("part", "latest", settings), 0);
  EXPECT_EQ(events("part", "end").at(0).at("step"), 30);
  expect_same_numbers("part", "beside", "step-00000030");
}

// Killed behind a checkpoint whose own validation had not been ended, and behind one between two validations, which had
// ended that of the update before; and gone on with in either way.
TEST_F(BackgroundRuns, AreKilledAndResumedBitForBit) {
  for (const auto& [save, last] :
       {std::pair("output.save_every=10", "step-00000020\n"), {"output.save_every=5", "step-00000025\n"}}) {
    const std::string whole = std::string("whole") + save;
    ASSERT_EQ(train_beside(whole, "", {save}), 0);
    for (const char* after : {"validate.background=true", "validate.background=false"}) {
      const std::string killed = std::string("killed") + save + after;
      setenv("TOY_KILLED_AT", "28", 1);
      EXPECT_EXIT(train_beside(killed, "", {save}), ::testing::KilledBySignal(SIGKILL), "");
      unsetenv("TOY_KILLED_AT");
      EXPECT_EQ(bytes(killed + "/checkpoints/LATEST"), last);
      ASSERT_EQ(train(killed, "latest", {save, after}), 0);
      expect_same_numbers(killed, whole, "step-00000040");
      EXPECT_EQ(validations(killed), validations(whole));
      EXPECT_EQ(best(killed), best(whole));
    }
  }
}

// The disk refuses the checkpoint of the best validation, which is lost, and accepts that of the next one.
TEST_F(BackgroundRuns, GoOnWhenTheDiskRefusesTheBestCheckpoint) {
  const std::string checkpoints = files_ / "run/checkpoints";
  int validations = 0;
  ToyTask::when_validating = [&] {
    ++validations;
    if (validations <= 2) std::filesystem::remove(checkpoints);  // empty so far
    if (validations == 1) write_bytes(checkpoints, "where the directory should be");
  };
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(train_beside("run", "", kStill + std::vector<std::string>{"output.save_every=100"}), 0);
  const std::string errors = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(errors, "no checkpoint at step 10, to be tried again: ")) << errors;
  EXPECT_EQ(best("run"), "step-00000020\n");
  EXPECT_TRUE(exists("run/checkpoints/step-00000020"));
}

TEST_F(BackgroundRuns, EndWithTheErrorOfAValidation) {
  ToyTask::when_validating = [] { throw std::runtime_error("no memory for a beam"); };
  EXPECT_EQ(message<std::runtime_error>([&] { train_beside("run"); }), "no memory for a beam");
}

// Batches, weights and the vocabulary of a translation are in use by both threads; on a device, by its kernels too.
TEST_F(TinyRun, TranslatesInTheBackground) {
  for (const char* device : {"cpu", "emulated"}) {
    if (std::string(device) == "emulated" && !cuda_is_emulated()) continue;
    const std::string more = std::string("--set output.save_every=100 --device ") + device;
    ASSERT_EQ(train(std::string("waits") + device, more).exit_code, 0);
    const ProgramResult beside = train(std::string("beside") + device, more + " --set validate.background=true");
    ASSERT_EQ(beside.exit_code, 0) << beside.err;
    expect_same_numbers(std::string("beside") + device, std::string("waits") + device, "step-00000005");
    const auto want = events(std::string("waits") + device, "validate"),
               got = events(std::string("beside") + device, "validate");
    ASSERT_EQ(got.size(), 2u);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].at("step"), want[i].at("step"));
      EXPECT_NEAR(got[i].at("loss").get<double>(), want[i].at("loss").get<double>(), 1e-5);  // f32, in another order
      EXPECT_EQ(got[i].at("bleu"), want[i].at("bleu"));
    }
  }
}

// Images are read by both threads; where the test images are validated on, no checkpoint is chosen.
TEST_F(ClassificationRun, ClassifiesInTheBackground) {
  for (const std::string held_out : {"0", "12"}) {
    const std::string settings = "train.steps=8;validate.every=2;output.save_every=8;data.valid_images=" + held_out;
    const std::string waits = "waits" + held_out, beside = "beside" + held_out;
    ASSERT_EQ(train(waits, settings), 0);
    ASSERT_EQ(train(beside, settings + ";validate.background=true"), 0);
    const auto want = events_of(files_ / waits, "validate"), got = events_of(files_ / beside, "validate");
    ASSERT_EQ(got.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i)
      for (const char* what : {"step", "loss", "top1", "top5"}) EXPECT_EQ(got[i].at(what), want[i].at(what)) << what;
    for (const char* file : {"checkpoints/step-00000008/model.safetensors", "exhibits.json"})
      EXPECT_EQ(read_bytes(files_ / beside + "/" + file), read_bytes(files_ / waits + "/" + file)) << file;
    EXPECT_EQ(std::filesystem::exists(files_ / beside + "/checkpoints/BEST"), held_out != "0");
    if (held_out == "0") continue;
    EXPECT_EQ(read_bytes(files_ / beside + "/checkpoints/BEST"), read_bytes(files_ / waits + "/checkpoints/BEST"));
  }
}

}  // namespace
}  // namespace foldgrad::testing
