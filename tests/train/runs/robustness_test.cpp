// Tests runs of the program that are killed, interrupted, or cannot write to the disk.
#include <sys/resource.h>

#include <random>

#include "tests/train/fuzz/fuzz.h"
#include "tests/train/spawned_program.h"
#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

class TrainRobustness : public TinyRun {
 protected:
  // Starts the program with a limit of `file_limit` bytes per file, so that the disk seems full.
  SpawnedProgram spawn(const std::string& arguments, rlim_t file_limit = RLIM_INFINITY) {
    return SpawnedProgram(arguments + " >" + files_ / "out" + " 2>" + files_ / "err", [=] {
      std::signal(SIGXFSZ, SIG_IGN);  // writes then fail with EFBIG instead of ending the process
      set_file_limit(0, file_limit);
    });
  }
  static void set_file_limit(pid_t process, rlim_t limit) {
    rlimit both{};
    prlimit(process, RLIMIT_FSIZE, nullptr, &both);
    both.rlim_cur = limit;
    prlimit(process, RLIMIT_FSIZE, &both, nullptr);
  }
  std::string errors() { return exists("err") ? bytes("err") : ""; }
  void wait_for_error(const std::string& text) {
    wait_until([&] { return contains(errors(), text); });
  }
  static std::uintmax_t size_of(const std::string& path) {
    std::error_code absent;
    const std::uintmax_t size = std::filesystem::file_size(path, absent);
    return absent ? 0 : size;
  }
};

const std::string kMany =
    "--set train.steps=60 --set output.log_every=3 --set output.save_every=4 --set "
    "validate.every=25 --set train.average_decay=0.5 ";

// scripts/soak sends more signals, with other seeds.
TEST_F(TrainRobustness, SignalsAnywhereLeaveTheBitsAndTheEventsOfTheUndisturbedRun) {
  ASSERT_EQ(train("whole", kMany).exit_code, 0);
  std::mt19937 random{std::uint32_t(fuzz_seed())};
  const int signals = 8 * soaking();
  int sent = 0, saves = 0, resumed = 0;
  for (int run = 0; sent < signals; ++run) {
    const std::string part = "part" + std::to_string(run), log = files_ / part + "/log.jsonl";
    for (bool finished = false; !finished;) {
      const std::uintmax_t bytes_then = size_of(log);
      SpawnedProgram child = spawn(arguments(part, kMany + "--resume"));
      if (sent < signals) {
        // On average an update adds about 60 bytes to the log, and a validation about 2,000, so the signal comes
        // anywhere in the next 40 updates or so.
        wait_until([&] { return size_of(log) != bytes_then || child.ended(); });
        const std::uintmax_t goal = size_of(log) + random() % 2500;
        wait_until([&] { return size_of(log) >= goal || child.ended(); });
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        constexpr int kSignals[] = {SIGKILL, SIGTERM, SIGINT};
        child.send(kSignals[random() % 3]);
      }
      const int status = child.wait();
      const bool saved = WIFEXITED(status) && WEXITSTATUS(status) == 130;
      sent += WIFSIGNALED(status) || saved;
      saves += saved;
      finished = WIFEXITED(status) && !saved;
      ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0) << errors();
      ASSERT_FALSE(contains(errors(), "warning"));
      resumed += contains(errors(), "resuming at step ");
    }
    expect_same_numbers("whole", part, "step-00000060");
    EXPECT_EQ(bytes("whole/checkpoints/BEST"), bytes(part + "/checkpoints/BEST"));
    for (const char* kind : {"train", "validate", "layers", "end"})
      ASSERT_EQ(timeless_events("whole", kind), timeless_events(part, kind)) << kind;
  }
  EXPECT_GT(resumed, signals / 2);
  EXPECT_GT(saves, signals / 4);
}

TEST_F(TrainRobustness, NoTimeIsNegativeWhereClocksGoBack) {
  SpawnedProgram program(
      arguments("out", "--set output.log_every=1") + " >/dev/null 2>&1", [] {}, preloading("clock"));
  ASSERT_EQ(program.exit_code(), 0);
  for (const char* kind : {"train", "validate"}) {
    ASSERT_FALSE(events("out", kind).empty());
    for (const nlohmann::json& event : events("out", kind)) {
      EXPECT_GE(event.at("seconds"), 0) << event;
      if (kind == std::string("train")) {
        EXPECT_GE(event.at("tokens_per_second"), 0) << event;
      }
    }
  }
}

// With a stack below 64 KiB, commands used to end with SIGSEGV. This stack is 32 KiB.
TEST_F(TrainRobustness, ASmallStackIsEnough) {
  SpawnedProgram program(arguments("out") + " >/dev/null 2>&1", [] {
    const rlimit small{32 << 10, 32 << 10};
    setrlimit(RLIMIT_STACK, &small);
  });
  EXPECT_EQ(program.exit_code(), 0);
}

TEST_F(TrainRobustness, AFullDiskIsTriedAgain) {
  ASSERT_EQ(train("whole").exit_code, 0);
  SpawnedProgram child = spawn(arguments("part"), 6000);  // enough for config.toml, but not for weights
  wait_for_error("the checkpoint at step 5 could not be saved; saving will be retried: ");
  EXPECT_TRUE(contains(errors(), ": cannot be written: File too large\n"));
  EXPECT_FALSE(exists("part/checkpoints/LATEST"));
  set_file_limit(child.pid(), RLIM_INFINITY);
  EXPECT_EQ(child.exit_code(), 0) << errors();
  expect_same_numbers("whole", "part", "step-00000005");
  EXPECT_EQ(events("part", "layers").size(), 2u);  // the log could not be written for a while, either
  ASSERT_EQ(train("part", "--resume").exit_code, 0);
  for (const char* kind : {"train", "validate", "layers", "end"})
    EXPECT_EQ(timeless_events("whole", kind), timeless_events("part", kind)) << kind;
}

TEST_F(TrainRobustness, AFullDiskToTheEndIsAnError) {
  SpawnedProgram child = spawn(arguments("run"), 6000);
  wait_for_error("the checkpoint at step 5 could not be saved; saving will be retried: ");
  child.send(SIGINT);
  EXPECT_EQ(child.exit_code(), 3) << errors();
  EXPECT_TRUE(contains(errors(), "error: " + files_ / "run/checkpoints: step 5 could not be saved; there is no "
                                                      "earlier checkpoint\n"));
}

TEST_F(TrainRobustness, TheFirstSignalSavesTheSecondEndsAtOnce) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = "run" + std::to_string(signal);
    SpawnedProgram child = spawn(arguments(run, kEndless));
    wait_until([&] { return exists(run + "/checkpoints/LATEST"); });
    child.send(signal);
    EXPECT_EQ(child.exit_code(), 130) << errors();
    const std::string latest = bytes(run + "/checkpoints/LATEST");
    EXPECT_TRUE(contains(errors(), "interrupted at step " + std::to_string(std::stoi(latest.substr(5))) +
                                       ", which is saved; continue with --resume\n"));
    EXPECT_TRUE(contains(bytes(run + "/checkpoints/" + latest.substr(0, 13) + "/config.json"), "foldgrad transformer"));
  }
  // The limit of 6000 bytes per file keeps the checkpoint from being saved, so the run is still retrying when the
  // second signal arrives. Stderr is a file under the same limit, so logging is off.
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

}  // namespace
}  // namespace foldgrad::testing
