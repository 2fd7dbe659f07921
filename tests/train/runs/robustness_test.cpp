// Runs that are killed, interrupted, or refused by the disk: with the program itself.
#include <sys/resource.h>

#include <random>

#include "tests/train/spawned_program.h"
#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

class TrainRobustness : public TinyRun {
 protected:
  // Starts the program; files may have `file_limit` bytes, so that the disk seems full.
  SpawnedProgram spawn(const std::string& arguments, rlim_t file_limit = RLIM_INFINITY) {
    return SpawnedProgram(arguments + " >" + files_ / "out" + " 2>" + errors_, [=] {
      std::signal(SIGXFSZ, SIG_IGN);  // then writing fails with EFBIG
      set_file_limit(0, file_limit);
    });
  }
  static void set_file_limit(pid_t process, rlim_t limit) {
    rlimit both{};
    prlimit(process, RLIMIT_FSIZE, nullptr, &both);
    both.rlim_cur = limit;
    prlimit(process, RLIMIT_FSIZE, &both, nullptr);
  }
  std::string errors() { return std::filesystem::exists(errors_) ? read_bytes(errors_) : ""; }
  void wait_for_error(const std::string& text) {
    wait_until([&] { return contains(errors(), text); });
  }
  void wait_for_file(const std::string& path) {
    wait_until([&] { return exists(path); });
  }
  static std::uintmax_t size_of(const std::string& path) {
    std::error_code absent;
    const std::uintmax_t size = std::filesystem::file_size(path, absent);
    return absent ? 0 : size;
  }

  const std::string errors_ = files_ / "err";
};

const std::string kMany =
    "--set train.steps=60 --set output.log_every=3 --set output.save_every=4 --set "
    "validate.every=25 --set train.average_decay=0.5 ";

TEST_F(TrainRobustness, TwentyKillsAndInterruptsLeaveTheBitsAndTheLogOfTheUninterruptedRun) {
  ASSERT_EQ(train("whole", kMany).exit_code, 0);
  std::mt19937 random(1);
  int kills = 0, saves = 0, resumed = 0;
  for (int run = 0; kills < 20; ++run) {
    const std::string part = "part" + std::to_string(run), log = files_ / part + "/log.jsonl";
    for (bool finished = false; !finished;) {
      const std::uintmax_t bytes_then = size_of(log);
      SpawnedProgram child = spawn(arguments(part, kMany + "--resume"));
      if (kills < 20) {
        // An update writes some ten bytes and a validation 2,000, so the kill comes anywhere in up to 20 updates.
        wait_until([&] { return size_of(log) != bytes_then || child.ended(); });
        const std::uintmax_t goal = size_of(log) + random() % 2500;
        wait_until([&] { return size_of(log) >= goal || child.ended(); });
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        constexpr int kSignals[] = {SIGKILL, SIGTERM, SIGINT};
        child.send(kSignals[random() % 3]);
      }
      const int status = child.wait();
      const bool saved = WIFEXITED(status) && WEXITSTATUS(status) == 130;
      kills += WIFSIGNALED(status) || saved;
      saves += saved;
      finished = WIFEXITED(status) && !saved;
      ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0) << errors();
      ASSERT_FALSE(contains(errors(), "warning")) << errors();
      resumed += contains(errors(), "resuming at step ");
    }
    expect_same_numbers("whole", part, "step-00000060");
    EXPECT_EQ(bytes("whole/checkpoints/BEST"), bytes(part + "/checkpoints/BEST"));
    const auto want = events("whole", "train"), got = events(part, "train");
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      for (const char* key : {"step", "loss", "gradient_norm", "lr"}) EXPECT_EQ(want[i].at(key), got[i].at(key));
  }
  EXPECT_GT(resumed, 10);
  EXPECT_GT(saves, 5);
}

TEST_F(TrainRobustness, AFullDiskIsTriedAgain) {
  ASSERT_EQ(train("whole").exit_code, 0);
  SpawnedProgram child = spawn(arguments("part"), 6000);  // config.toml has room, weights have not
  wait_for_error("no checkpoint at step 5, to be tried again: ");
  EXPECT_TRUE(contains(errors(), ": cannot be written: File too large\n")) << errors();
  EXPECT_FALSE(exists("part/checkpoints/LATEST"));
  set_file_limit(child.pid(), RLIM_INFINITY);
  EXPECT_EQ(child.exit_code(), 0) << errors();
  expect_same_numbers("whole", "part", "step-00000005");
  EXPECT_EQ(events("part", "layers").size(), 2u);  // the log, too, was full
}

TEST_F(TrainRobustness, AFullDiskToTheEndIsAnError) {
  SpawnedProgram child = spawn(arguments("run"), 6000);
  wait_for_error("no checkpoint at step 5, to be tried again: ");
  child.send(SIGINT);
  EXPECT_EQ(child.exit_code(), 3) << errors();
  EXPECT_TRUE(contains(errors(), "error: " + files_ / "run/checkpoints: step 5 could not be saved; there is no "
                                                      "earlier one\n"))
      << errors();
}

TEST_F(TrainRobustness, TheFirstSignalSavesTheSecondEndsAtOnce) {
  const std::string endless = "--set train.steps=100000000 --set output.log_every=1 ";
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = "run" + std::to_string(signal);
    SpawnedProgram child = spawn(arguments(run, endless));
    wait_for_file(run + "/checkpoints/LATEST");
    child.send(signal);
    EXPECT_EQ(child.exit_code(), 130) << errors();
    const std::string latest = bytes(run + "/checkpoints/LATEST");
    EXPECT_TRUE(contains(errors(), "interrupted at step " + std::to_string(std::stoi(latest.substr(5))) +
                                       ", which is saved; continue with --resume\n"))
        << errors();
    EXPECT_TRUE(contains(bytes(run + "/checkpoints/" + latest.substr(0, 13) + "/config.json"), "foldgrad transformer"));
  }
  // So that it waits for room on the disk between the signals. It prints nothing before, since stderr is a file too.
  SpawnedProgram child = spawn(arguments("other",
                                         "--set train.steps=100000000 --set output.log_every=100000000 --set "
                                         "output.save_every=100000000 --set validate.every=100000000"),
                               6000);
  wait_until([&] { return size_of(files_ / "other/log.jsonl") > 0; });
  child.send(SIGINT);
  wait_for_error("a second signal stops at once, without saving\n");
  child.send(SIGINT);
  EXPECT_EQ(child.end_signal(), SIGINT) << errors();
}

TEST_F(TrainRobustness, DamagedAndForeignCheckpoints) {
  ASSERT_EQ(train("run").exit_code, 0);
  const std::string checkpoints = files_ / "run/checkpoints";
  const auto cut = [&](const std::string& step) {
    const std::string file = checkpoints + "/" + step + "/optimizer.safetensors";
    std::filesystem::resize_file(file, 100);
    return file + ": must have ";
  };
  const std::string newest = cut("step-00000005");
  const ProgramResult older = train("run", "--resume");
  EXPECT_EQ(older.exit_code, 0) << older.err;
  EXPECT_EQ(older.err.rfind("warning: " + newest, 0), 0u) << older.err;
  EXPECT_TRUE(contains(older.err, "resuming at step 4\n")) << older.err;

  ASSERT_EQ(train("small", "--set model.ffn_width=8").exit_code, 0);
  std::filesystem::copy(files_ / "small/checkpoints/step-00000005", checkpoints + "/step-00000009",
                        std::filesystem::copy_options::recursive);
  const ProgramResult foreign = train("run", "--resume " + checkpoints + "/step-00000009");
  EXPECT_EQ(foreign.exit_code, 4);
  EXPECT_EQ(foreign.err.rfind("error: " + checkpoints + "/step-00000009: the configuration has changed", 0), 0u)
      << foreign.err;
  const ProgramResult forced = train("run", "--allow-config-change --resume " + checkpoints + "/step-00000009");
  EXPECT_EQ(forced.exit_code, 4);
  EXPECT_TRUE(contains(
      forced.err, "step-00000009: is of another model: trainer: decoder.layers.0.fc1.bias of the saved state must be "))
      << forced.err;

  std::string all;
  for (const char* step : {"step-00000002", "step-00000003", "step-00000004", "step-00000005", "step-00000009"})
    all += cut(step);
  const ProgramResult none = train("run", "--resume");
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_EQ(none.err.rfind("error: " + checkpoints + ": none of 5 checkpoints can be loaded:\n", 0), 0u) << none.err;
}

}  // namespace
}  // namespace foldgrad::testing
