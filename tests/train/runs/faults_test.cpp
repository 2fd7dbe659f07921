// Tests that a run survives faults of its files, whether the run is new or resumed. At one system call on its files,
// either the call fails or the process is killed. If this stops the run, `--resume` continues it. In the end, the run
// must have the bits of an undisturbed run. The tests try every 11th call, and soak tests every call.
#include <cerrno>
#include <filesystem>

#include "tests/train/fuzz/fuzz.h"
#include "tests/train/spawned_program.h"
#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;

// The run has two updates. It saves a checkpoint after each update, and validates after the second.
constexpr const char* kTwoUpdates =
    "--set validate.every=2 --set validate.beam=1 --set validate.max_length_b=2 --set output.log_every=1 "
    "--set output.save_every=1 --set output.keep=2";

constexpr int kKill = 0;

struct Fault {
  long at = -1;  // index of the call with the fault, or -1 for no fault
  int error = kKill;
};

class RunFaults : public TinyRun {
 protected:
  RunFaults() { EXPECT_EQ(train("whole"), 0) << bytes("err"); }

  // Trains for `steps` updates in total. Returns the exit code, or -n if signal n ended the process.
  int train(const std::string& run, const Fault& fault = {}, int steps = 2) {
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    SpawnedProgram program(
        filled(arguments(run, fmt::format("--resume --set train.steps={} {} >@out 2>@err", steps, kTwoUpdates))),
        [&] {
          set("FAULTS_BELOW", files_ / run);
          set("FAULTS_AT", std::to_string(fault.at));
          set("FAULTS_ERROR", std::to_string(fault.error));
          set("FAULTS_COUNT", files_ / "count");
        },
        preloading("faults"));
    const int status = program.wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // Tests every 11th call of a run, or every call in soak tests. The run begins with the files of the run `before`, or
  // without files if `before` is empty.
  void survives_faults(const std::string& before, int kind) {
    make_anew("counted", before);
    ASSERT_EQ(train("counted"), 0) << bytes("err");
    const long calls = std::stol(bytes("count"));
    ASSERT_GT(calls, 300);
    const long step = soaking() > 1 ? 1 : 11;
    int points = 0, stopped = 0;
    for (long at = long(fuzz_seed()) % step; at < calls && !HasFailure(); at += step, ++points) {
      make_anew("run", before);
      stopped += stops_and_goes_on({at, kind == kKill ? kKill : points % 2 == 0 ? ENOSPC : EIO}, !before.empty());
    }
    RecordProperty("points", points);
    EXPECT_GT(points, calls / step - 1);
    // Only about 4 of 100 errors stop a run, since a checkpoint that cannot be saved at once is saved later. With fewer
    // than 60 errors, it can happen that no run is stopped.
    if (kind == kKill) {
      EXPECT_GT(stopped, points * 9 / 10);
    } else if (points >= 60) {
      EXPECT_GT(stopped, 0);
    }
  }
  void survives_faults_when_it_goes_on(int kind) {
    ASSERT_EQ(train("begun", {}, 1), 0) << bytes("err");
    survives_faults("begun", kind);
  }

 private:
  void make_anew(const std::string& run, const std::string& before) {
    fs::remove_all(files_ / run);
    if (!before.empty()) fs::copy(files_ / before, files_ / run, fs::copy_options::recursive);
  }

  // Trains with the fault and, if that stops the run, resumes it. Returns true if the fault stopped the run.
  bool stops_and_goes_on(const Fault& fault, bool resumed) {
    SCOPED_TRACE(fmt::format("call {}, error {}", fault.at, fault.error));
    const int outcome = train("run", fault);
    if (outcome == 0) {
      expect_same_bits();
      return false;
    }
    if (fault.error == kKill) {
      EXPECT_EQ(outcome, -SIGKILL);
    } else {
      EXPECT_TRUE(outcome == 3 || (resumed && outcome == 4)) << outcome << "\n" << bytes("err");
      EXPECT_TRUE(contains(bytes("err"), "error: "));
    }
    EXPECT_EQ(train("run"), 0) << bytes("err");
    if (!HasFailure()) expect_same_bits();
    return true;
  }

  void expect_same_bits() {
    expect_same_numbers("run", "whole", "step-00000002");
    const std::string config = "/checkpoints/step-00000002/config.json";
    EXPECT_EQ(bytes("run" + config), bytes("whole" + config));
    EXPECT_EQ(bytes("run/checkpoints/LATEST"), "step-00000002\n");
    for (const auto& entry : fs::recursive_directory_iterator(files_ / "run"))
      EXPECT_FALSE(contains(entry.path(), ".part"));
  }
};

TEST_F(RunFaults, KilledInItsFirstStart) { survives_faults("", kKill); }
TEST_F(RunFaults, ErrorsInItsFirstStart) { survives_faults("", EIO); }
TEST_F(RunFaults, KilledWhenItGoesOn) { survives_faults_when_it_goes_on(kKill); }
TEST_F(RunFaults, ErrorsWhenItGoesOn) { survives_faults_when_it_goes_on(EIO); }

}  // namespace
}  // namespace foldgrad::testing
