// Every call by which a run's files are made, read, renamed and removed, failing or killed there: from the first start,
// and from a resumed one. Afterwards `--resume` goes on, or begins at 0, and ends with the bits of a run in peace.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "tests/engine/files/temporary_directory.h"
#include "tests/train/fuzz/fuzz.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"([model]
width = 8
ffn_width = 8
heads = 1
encoder_layers = 1
decoder_layers = 1
max_positions = 64
[norm]
name = "un"
[norm.un]
warmup = 1
window = 2
[data]
task = "numbers"
train_pairs = 12
valid_pairs = 2
[train]
steps = 2
max_tokens = 64
warmup = 2
[validate]
every = 2
beam = 1
max_length_b = 2
[output]
log_every = 1
save_every = 1
keep = 2
)";

constexpr int kKill = 0;

struct Fault {
  long at = -1;  // which call; -1: none
  int error = kKill;
};

class RunFaults : public ::testing::Test {
 protected:
  RunFaults() {
    write_bytes(files_ / "c.toml", kConfig);
    EXPECT_EQ(train(files_ / "whole"), 0) << errors();
  }

  // Trains, for one update only if `first`. Returns the exit code, or minus the signal.
  int train(const std::string& run, const Fault& fault = {}, bool first = false) {
    const pid_t child = fork();
    if (child == 0) be_the_program(run, fault, first);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string errors() { return read_bytes(files_ / "err"); }

  // Goes through the calls of a run that begins with the files of `before`, or with none when that is empty.
  void survives_faults(const std::string& before, int kind) {
    const std::string counted = fresh("counted", before);
    ASSERT_EQ(train(counted), 0) << errors();
    const long calls = std::stol(read_bytes(files_ / "count"));
    ASSERT_GT(calls, 300);
    const long step = soaking() > 1 ? 1 : 11;
    int points = 0, stopped = 0;
    for (long at = long(fuzz_seed()) % step; at < calls && !HasFailure(); at += step, ++points) {
      const Fault fault{at, kind == kKill ? kKill : points % 2 == 0 ? ENOSPC : EIO};
      stopped += stops_and_goes_on(fresh("run", before), fault, !before.empty());
    }
    RecordProperty("points", points);
    EXPECT_GT(points, calls / step - 1);
    // A checkpoint that cannot be saved at once is saved later: some four of a hundred errors stop a run, of ten
    // perhaps none.
    if (kind == kKill) {
      EXPECT_GT(stopped, points * 9 / 10);
    } else if (points >= 60) {
      EXPECT_GT(stopped, 0);
    }
  }

 private:
  [[noreturn]] void be_the_program(const std::string& run, const Fault& fault, bool first) {
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("LD_PRELOAD", FOLDGRAD_PRELOAD "/libfaults.so", 1);
    setenv("FAULTS_BELOW", run.c_str(), 1);
    setenv("FAULTS_AT", std::to_string(fault.at).c_str(), 1);
    setenv("FAULTS_ERROR", std::to_string(fault.error).c_str(), 1);
    setenv("FAULTS_COUNT", (files_ / "count").c_str(), 1);
    if (!std::freopen((files_ / "out").c_str(), "w", stdout) || !std::freopen((files_ / "err").c_str(), "w", stderr))
      _exit(126);
    const std::string config = files_ / "c.toml", steps = first ? "train.steps=1" : "train.steps=2";
    execl(FOLDGRAD_PROGRAM, "foldgrad", "train", config.c_str(), "--out", run.c_str(), "--set", steps.c_str(),
          "--resume", nullptr);
    _exit(127);
  }

  std::string fresh(const std::string& name, const std::string& before) {
    const std::string run = files_ / name;
    fs::remove_all(run);
    if (!before.empty()) fs::copy(before, run, fs::copy_options::recursive);
    return run;
  }

  // Returns true if the fault stopped the run.
  bool stops_and_goes_on(const std::string& run, const Fault& fault, bool resumed) {
    const std::string where = "call " + std::to_string(fault.at) + ", error " + std::to_string(fault.error) + ": ";
    const int outcome = train(run, fault);
    if (outcome == 0) {
      expect_same_bits(run, where);
      return false;
    }
    if (fault.error == kKill) {
      EXPECT_EQ(outcome, -SIGKILL) << where;
    } else {
      EXPECT_TRUE(outcome == 3 || (resumed && outcome == 4)) << where << outcome << "\n" << errors();
      EXPECT_NE(errors().find("error: "), std::string::npos) << where << errors();
    }
    EXPECT_EQ(train(run), 0) << where << errors();
    if (!HasFailure()) expect_same_bits(run, where);
    return true;
  }

  void expect_same_bits(const std::string& run, const std::string& where) {
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "norm_state.safetensors", "config.json"}) {
      const std::string name = std::string("/checkpoints/step-00000002/") + file;
      EXPECT_TRUE(read_bytes(run + name) == read_bytes(files_ / "whole" + name)) << where << file;
    }
    EXPECT_EQ(read_bytes(run + "/checkpoints/LATEST"), "step-00000002\n") << where;
    for (const auto& entry : fs::recursive_directory_iterator(run))
      EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << where << entry.path();
  }

  TemporaryDirectory files_;
};

TEST_F(RunFaults, KilledInItsFirstStart) { survives_faults("", kKill); }
TEST_F(RunFaults, ErrorsInItsFirstStart) { survives_faults("", EIO); }

class ResumedRunFaults : public RunFaults {
 protected:
  ResumedRunFaults() { EXPECT_EQ(train(begun_.path() + "/run", {}, true), 0) << errors(); }
  TemporaryDirectory begun_;
};

TEST_F(ResumedRunFaults, KilledWhenItGoesOn) { survives_faults(begun_ / "run", kKill); }
TEST_F(ResumedRunFaults, ErrorsWhenItGoesOn) { survives_faults(begun_ / "run", EIO); }

}  // namespace
}  // namespace foldgrad::testing
