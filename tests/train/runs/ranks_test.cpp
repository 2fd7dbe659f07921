// Runs on several ranks, in one process and, where there is mpirun, in several.
#include <fmt/format.h>

#include <filesystem>
#include <regex>

#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

class RanksRun : public TinyRun {
 protected:
  // In a process alone, or by mpirun.
  ProgramResult run(int processes, const std::string& arguments) {
    return processes == 1 ? run_program(arguments) : mpirun(processes, arguments);
  }
  ProgramResult mpirun(int processes, const std::string& arguments) {
    const std::string log = files_ / "mpirun";
    // LeakSanitizer would look into the library of MPI, too.
    const std::string start =
        "ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe --mca btl_vader_single_copy_mechanism "
        "none";
    const std::string command =
        fmt::format("{} -n {} '{}' {} --device cpu >{} 2>&1", start, processes, program(), arguments, log);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, "", read_bytes(log)};
  }
  std::string checkpoint(const std::string& out, const std::string& step) {
    std::string all;
    for (const char* part : {"model", "optimizer", "norm_state"})
      all += read_bytes(files_ / out + "/checkpoints/step-" + step + "/" + part + ".safetensors");
    return all;
  }
  void needs_mpirun() {
    if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
    if (!std::regex_search(run_program("doctor").out, std::regex("\nmpi +usable\n")))
      GTEST_SKIP() << "this build has no MPI";
  }
};

constexpr const char* kFour = "--set train.shards=4 --set train.average_decay=0.9 --set train.accumulate=2 ";

TEST_F(RanksRun, SameBitsInOneTwoAndFourProcesses) {
  ASSERT_NO_FATAL_FAILURE(needs_mpirun());
  if (IsSkipped()) return;
  for (const int processes : {1, 2, 4}) {
    const ProgramResult result = run(processes, arguments(std::to_string(processes), kFour));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(checkpoint(std::to_string(processes), "00000005"), checkpoint("1", "00000005")) << processes;
  }
}

TEST_F(RanksRun, AnyNumberOfProcessesResumes) {
  ASSERT_NO_FATAL_FAILURE(needs_mpirun());
  if (IsSkipped()) return;
  ASSERT_EQ(run(1, arguments("whole", std::string(kFour) + "--set train.steps=6")).exit_code, 0);
  const std::string on = "--resume ";
  ASSERT_EQ(run(4, arguments("parts", std::string(kFour) + "--set train.steps=2")).exit_code, 0);
  ASSERT_EQ(run(2, arguments("parts", on + kFour + "--set train.steps=4")).exit_code, 0);
  ASSERT_EQ(run(1, arguments("parts", on + kFour + "--set train.steps=6")).exit_code, 0);
  EXPECT_EQ(checkpoint("parts", "00000006"), checkpoint("whole", "00000006"));
}

TEST_F(RanksRun, AnErrorOfOneProcessEndsAll) {
  ASSERT_NO_FATAL_FAILURE(needs_mpirun());
  if (IsSkipped()) return;
  const std::string one = arguments("out");
  const std::string other = std::string(" : -n 1 '") + program() + "' " + one + " --set train.lr=0.5";
  const ProgramResult result = mpirun(1, one + " --device cpu" + other);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.err, "all ranks must have the same configuration")) << result.err;
  EXPECT_FALSE(std::filesystem::exists(files_ / "out"));
}

TEST_F(RanksRun, NumbersOfShardsThatAreRefused) {
  const ProgramResult odd = train("out", "--set train.shards=3");
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_EQ(odd.err, "error: train.shards must be a power of two, got 3\n");
}

TEST_F(RanksRun, AnotherNumberOfShardsIsAnotherTrajectory) {
  ASSERT_EQ(train("out", "--set train.shards=2").exit_code, 0);
  const ProgramResult other = train("out", "--resume --set train.shards=4 --set train.steps=8");
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_TRUE(contains(other.err, "train.shards")) << other.err;
}

// Batch norm of all rows, or of each rank's, whose statistics are rank 0's at the end of every update.
TEST_F(RanksRun, StatisticsOfEachRankAreOthers) {
  for (const char* sync : {"true", "false"})
    ASSERT_EQ(train(sync, std::string(kFour) + "--set norm.name=bn --set norm.sync=" + sync).exit_code, 0);
  EXPECT_NE(checkpoint("true", "00000005"), checkpoint("false", "00000005"));
}

}  // namespace
}  // namespace foldgrad::testing
