// Tests foldgrad grid with small runs.
#include "train/config/grid.h"

#include <sys/file.h>

#include <filesystem>

#include "tests/train/spawned_program.h"
#include "tests/train/tiny_run.h"
#include "train/config/config.h"

namespace foldgrad::testing {
namespace {

class GridRuns : public TinyRun {
 protected:
  void write_grid(const std::string& text) { write_bytes(files_ / "grid.toml", "config = \"config.toml\"\n" + text); }
  std::string words(const std::string& more) const {
    return filled("grid @grid.toml --data-dir @ --device cpu --out @" + more);
  }
  ProgramResult grid(const std::string& more = "") { return run_program(words("out " + more)); }
  std::string refusal() {
    return error_of<ConfigError>([&] { read_grid(files_ / "grid.toml"); });
  }
  std::string refusal(const std::string& text) {
    write_grid(text);
    return refusal();
  }
};

TEST_F(GridRuns, TrainWhatIsListedAndGoOn) {
  write_grid(
      "seeds = [1, 2]\n[set]\ntrain.lr = 2e-2\n[cells.\"M = 4\"]\nnorm.un.window = 4\n[cells.wild]\n"
      "train.lr = 1e38\ntrain.initial_lr = 1e38\n");
  const ProgramResult first = grid("--jobs 2");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_TRUE(contains(first.out, "\n| M = 4 | 2 | "));
  EXPECT_TRUE(contains(first.out, " ± "));
  EXPECT_TRUE(contains(first.out, "\n| wild | 0 | - | - | 0 | diverged, diverged |\n"));
  EXPECT_EQ(bytes("out/grid.md"), first.out);
  ASSERT_EQ(train("alone", "--set train.lr=2e-2 --set norm.un.window=4 --set train.seed=2").exit_code, 0);
  expect_same_numbers("alone", "out/M-=-4/seed-2", "step-00000005");
  // The grid resumes a run that was killed, and leaves finished runs unchanged.
  std::filesystem::remove_all(files_ / "out/M-=-4/seed-1");
  ASSERT_EQ(train("out/M-=-4/seed-1", "--set train.lr=2e-2 --set norm.un.window=4 --set train.steps=3").exit_code, 0);
  const std::string log = bytes("out/M-=-4/seed-1/log.jsonl");
  write_bytes(files_ / "out/M-=-4/seed-1/log.jsonl", log.substr(0, log.rfind("{\"event\":\"end\"")));
  setenv("OMP_NUM_THREADS", "3", 1);
  const ProgramResult second = grid();
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(nlohmann::json::parse(bytes("out/M-=-4/seed-1/env.json")).at("threads"), 3);
  EXPECT_EQ(events("out/M-=-4/seed-1", "start").size(), 2u);
  for (const char* ended : {"out/M-=-4/seed-2", "out/wild/seed-1"})
    EXPECT_EQ(events(ended, "start").size(), 1u) << ended;
}

// The grid writes its tables while some runs are still training. An interrupted run does not count as ended.
TEST_F(GridRuns, TablesFollowTheRuns) {
  write_grid("[cells.short]\n[cells.wide]\ntrain.steps = 100000000\noutput.log_every = 1\n");
  SpawnedProgram program(words("out >/dev/null 2>&1"));
  wait_until([&] { return exists("out/wide/seed-1/checkpoints/LATEST") || program.ended(); });
  EXPECT_TRUE(contains(bytes("out/grid.md"), "\n| short | 1 | "));
  EXPECT_TRUE(contains(bytes("out/grid.md"), "\n| wide | 0 | - | - | 0 | not ended |\n"));
  program.send(SIGTERM);
  EXPECT_EQ(program.exit_code(), 130);
  EXPECT_TRUE(events("out/wide/seed-1", "end").empty());
  EXPECT_TRUE(contains(bytes("out/grid.md"), "not ended"));
}

// SIGKILL, or a second SIGTERM, may end the grid before it has passed the signal on to its training process. This
// process must end nevertheless.
TEST_F(GridRuns, TrainingsEndWithTheirGrid) {
  write_grid("[set]\ntrain.steps = 20000\n");
  for (const bool kill : {false, true}) {
    const std::string out = kill ? "killed" : "stopped";
    SpawnedProgram program(words(out + " >/dev/null 2>@err"));
    wait_until([&] { return exists(out + "/all/seed-1/checkpoints/LATEST") || program.ended(); });
    const int lock = open((files_ / out + "/all/seed-1/lock").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_NE(flock(lock, LOCK_EX | LOCK_NB), 0);
    if (!kill) {
      program.send(SIGTERM);
      wait_until([&] { return contains(bytes("err"), "stopping") || program.ended(); });
    }
    program.send(kill ? SIGKILL : SIGTERM);
    EXPECT_EQ(program.end_signal(), kill ? SIGKILL : SIGTERM);
    EXPECT_EQ(flock(lock, LOCK_EX), 0);  // waits until the training process ends and thereby releases the lock
    ::close(lock);
    EXPECT_FALSE(contains(bytes(out + "/all/seed-1/log.jsonl"), "{\"event\":\"end\""));
  }
}

TEST_F(GridRuns, CellsThatCannotRunAreSaidAndEachIsTriedBeforeAnotherSeed) {
  write_grid("seeds = [2, 1]\n[set]\ntrain.shards = 64\n[cells.a]\n[cells.b]\n[cells.c]\n");
  const ProgramResult r = grid();
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(contains(r.out, "| a | 0 | - | - | 0 | exit code 2, exit code 2 |\n"));
  EXPECT_TRUE(contains(r.err, "out/a/seed-2: exited with code 2: the first batch has "));
  EXPECT_TRUE(contains(r.err, "\nto see the whole output, run: "));
  EXPECT_TRUE(contains(r.err, "\nerror: " + files_ / "grid.toml" + ": runs failed, see the warnings above\n"));
  std::size_t at = 0;
  for (const char* run : {"a/seed-2", "b/seed-2", "c/seed-2", "a/seed-1", "b/seed-1", "c/seed-1"}) {
    at = r.err.find(std::string("/out/") + run + "\n", at);
    ASSERT_NE(at, std::string::npos) << run << " in " << r.err;
  }
}

// If the data of a cell are missing, the grid ends: the other cells would read the same data.
TEST_F(GridRuns, EndAtTheFirstWhoseDataAreMissing) {
  write_grid("[set]\ndata.directory = \"nowhere\"\n[cells.a]\n[cells.b]\n");
  const ProgramResult r = grid();
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_TRUE(contains(r.err, "out/a/seed-1: exited with code 3: " + files_ / "nowhere" + ": "));
  EXPECT_FALSE(contains(r.err, "out/b/seed-1"));
  EXPECT_TRUE(
      contains(bytes("out/grid.md"), "| a | 0 | - | - | 0 | exit code 3 |\n| b | 0 | - | - | 0 | not ended |\n"));
}

TEST_F(GridRuns, RunsThatCannotStartOrAreKilledSayWhy) {
  write_grid("[set]\ntrain.steps = 20000\n");
  // With a limit of four open files, the grid starts, but cannot start a run. Inherited files count too, so the test
  // closes them; otherwise the loader would already fail.
  SpawnedProgram none(
      words("none >/dev/null 2>@err"), [] { close_range(3, ~0u, 0); }, "prlimit --nofile=4:4");
  EXPECT_EQ(none.exit_code(), 1);
  EXPECT_TRUE(contains(bytes("err"), "none/all/seed-1: could not be started: Too many open files")) << bytes("err");
  SpawnedProgram program(words("out >/dev/null 2>@err"));
  wait_until([&] {
    return (exists("out/all/seed-1/lock") && contains(bytes("out/all/seed-1/lock"), " on ")) || program.ended();
  });
  kill(pid_t(std::stol(bytes("out/all/seed-1/lock").substr(8))), SIGKILL);  // the lock says "process 17 on host"
  EXPECT_EQ(program.exit_code(), 1);
  EXPECT_TRUE(contains(bytes("err"), "out/all/seed-1: was ended by signal 9 (Killed)")) << bytes("err");
}

// A grid that is stopped continues a suspended training process, so that this process can save a checkpoint and end.
TEST_F(GridRuns, EndWhereATrainingStandsStill) {
  write_grid("[set]\ntrain.steps = 100000000\n");
  SpawnedProgram program(words("out >/dev/null 2>&1"));
  wait_until([&] { return exists("out/all/seed-1/checkpoints/LATEST") || program.ended(); });
  const pid_t child = pid_t(std::stol(bytes("out/all/seed-1/lock").substr(8)));  // the lock says "process 17 on host"
  kill(child, SIGSTOP);
  program.send(SIGTERM);
  EXPECT_EQ(program.exit_code(), 130);
}

TEST_F(GridRuns, ListsAreCombined) {
  write_grid("[lists]\nnorm.un.alpha = [0.9, 0.8]\n\"train.on_nan\" = [\"skip\", \"abort\"]\n");
  const Grid grid = read_grid(files_ / "grid.toml");
  ASSERT_EQ(grid.cells.size(), 4u);
  EXPECT_EQ(grid.cells[1].name, "norm.un.alpha=0.9, train.on_nan=abort");
  EXPECT_EQ(grid.cells[1].folder, "norm.un.alpha=0.9--train.on_nan=abort");
  EXPECT_EQ(grid.cells[1].settings, (std::vector<std::string>{"norm.un.alpha=0.9", "train.on_nan=abort"}));
  EXPECT_EQ(grid.seeds, std::vector<std::int64_t>{1});
}

TEST_F(GridRuns, CellsAreCombinedWithListsAndMayBeginWithAnotherFile) {
  write_bytes(files_ / "other.toml", bytes("config.toml"));
  write_grid(
      "baseline = \"b, train.lr=1\"\n[set]\ntrain.steps = 2\n[lists]\ntrain.lr = [1, 2]\n[cells.a]\n[cells.b]\n"
      "config = \"other.toml\"\nnorm.un.window = 2\n");
  const Grid grid = read_grid(files_ / "grid.toml");
  ASSERT_EQ(grid.cells.size(), 4u);
  EXPECT_EQ(grid.cells[1].name, "a, train.lr=2");
  EXPECT_EQ(grid.baseline, 2u);
  EXPECT_EQ(grid.cells[1].config, files_ / "config.toml");
  EXPECT_EQ(grid.cells[2].name, "b, train.lr=1");
  EXPECT_EQ(grid.cells[2].config, files_ / "other.toml");
  EXPECT_EQ(grid.cells[2].settings, (std::vector<std::string>{"train.steps=2", "norm.un.window=2", "train.lr=1"}));
}

TEST_F(GridRuns, SayWhatIsWrong) {
  EXPECT_EQ(
      refusal("seed = 1\n"),
      "@grid.toml:2: a grid has no key seed; did you mean \"seeds\"? Its keys are config, seeds, set, lists, cells, "
      "baseline");
  EXPECT_EQ(refusal("seeds = [1, 1.5]\n"), "@grid.toml:2: seeds must be a list of integers");
  for (const char* seeds : {"1, 1", "-1"})
    EXPECT_EQ(refusal(fmt::format("seeds = [{}]\n", seeds)),
              fmt::format("@grid.toml:2: seeds must be at least 0 and all different, got {}", seeds));
  EXPECT_EQ(refusal("[lists]\ntrain.seed = [1, 2]\n"),
            "@grid.toml: train.seed must not be set; list all seeds in the key seeds");
  EXPECT_EQ(refusal("[cells.\"..\"]\n"),
            "@grid.toml: the cell \"..\" needs another name: this one cannot be a folder name");
  EXPECT_EQ(refusal("baseline = \"one\"\n[cells.ones]\n"),
            "@grid.toml:2: there is no cell \"one\" for the baseline; did you mean \"ones\"?");
  EXPECT_EQ(refusal("baseline = 1\n"), "@grid.toml:2: baseline must be text");
  EXPECT_EQ(refusal("set = 1\n"), "@grid.toml:2: set must be a table");
  EXPECT_EQ(refusal("[lists]\ntrain.lr = 1\n"), "@grid.toml:3: train.lr must be a list");
  EXPECT_EQ(refusal("[cells.\"a b\"]\n[cells.\"a-b\"]\n"),
            "@grid.toml: the cells \"a b\" and \"a-b\" would share the folder a-b");
  EXPECT_EQ(refusal("[set]\ntrain.lrr = 1\n"), "--set train.lrr: there is no key train.lrr; did you mean train.lr?");
  EXPECT_EQ(refusal("[cells.a]\nconfig = 1\n"), "@grid.toml:3: config must be text");
  EXPECT_EQ(refusal("[lists]\ntrain.lr = [1, 2]\n[cells]\na.train.lr = 3\n"),
            "@grid.toml:3: train.lr has a list here and a value in set or cells; remove one of them");
  EXPECT_TRUE(contains(refusal("[set]\nconfig = \"config.toml\"\n"), "config"));
  EXPECT_EQ(refusal("[set]\n[\n").substr(0, 13), "@grid.toml:3:");
  write_bytes(files_ / "grid.toml", "seeds = [1]\n");
  EXPECT_TRUE(contains(refusal(), "grid.toml: a grid must have config, the file that all cells start from"));
}

TEST(Grids, OfTheRepositoryCanBeRead) {
  int grids = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FOLDGRAD_SOURCE_DIR "/configs/grids")) {
    EXPECT_GE(read_grid(entry.path()).cells.size(), 2u) << entry.path();
    ++grids;
  }
  EXPECT_GE(grids, 9);
}

}  // namespace
}  // namespace foldgrad::testing
