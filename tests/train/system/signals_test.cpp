// Tests that the program handles signals, and that no signal interrupts a thread that runs kernels.
#include "train/system/signals.h"

#include "tests/train/spawned_program.h"
#include "tests/train/tiny_run.h"
#include "train/system/child_process.h"

namespace foldgrad::testing {
namespace {

class Signals : public TinyRun {
 protected:
  std::string quiet(const std::string& arguments) { return arguments + " >" + files_ / "out" + " 2>" + files_ / "err"; }
  void wait_for_file(const std::string& path) {
    wait_until([&] { return exists(path); });
  }
};

TEST_F(Signals, EveryThreadButOneBlocksThem) {
  const SpawnedProgram program(quiet("--threads 3 " + arguments("run", kEndless)));
  wait_for_file("run/checkpoints/LATEST");
  int threads = 0, open = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(program.pid()) + "/task")) {
    const std::string thread = task.path().filename();
    int blocked = 0;
    const int signals[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGPROF, SIGALRM, SIGVTALRM, SIGUSR1,
                           SIGUSR2, SIGCHLD, SIGWINCH, SIGTSTP, SIGCONT, SIGPIPE, SIGIO,     SIGRTMIN};
    for (const int signal : signals) blocked += program.has("SigBlk", signal, thread);
    if (!std::filesystem::exists(task.path())) continue;  // this thread (perhaps the prefetching one) has ended
    EXPECT_TRUE(blocked == 0 || blocked == int(std::size(signals))) << thread << " blocks " << blocked;
    open += blocked == 0;
    ++threads;
  }
  EXPECT_EQ(open, 1);
  EXPECT_GE(threads, 4);  // main, the signal thread, the prefetching thread, and at least one helper
}

TEST_F(Signals, AStormOfThemChangesNoBit) {
  for (const char* name : {"train.de", "train.en"}) {  // makes batches large enough for oneDNN's generated code
    std::string text;
    for (int i = 0; i < 20; ++i) text += bytes(name);
    write_bytes(files_ / name, text);
  }
  const std::string more =
      "--set train.steps=40 --set train.max_tokens=400 --set model.width=32 --set model.ffn_width=128 "
      "--set output.save_every=40 --set validate.every=40 ";
  ASSERT_EQ(train("calm", more).exit_code, 0);
  SpawnedProgram program(
      quiet(arguments("storm", more)), [] {}, preloading("storm"));
  wait_until([&] { return exists("storm/log.jsonl") || program.ended(); });
  EXPECT_TRUE(program.has("SigCgt", SIGPROF)) << bytes("err");
  ASSERT_EQ(program.exit_code(), 0) << bytes("err");
  expect_same_numbers("calm", "storm", "step-00000040");
}

TEST_F(Signals, HangingUpSavesUnlessItIsIgnored) {
  SpawnedProgram program(quiet(arguments("run", kEndless)));
  wait_for_file("run/checkpoints/LATEST");
  program.send(SIGHUP);
  EXPECT_EQ(program.exit_code(), 130) << bytes("err");
  SpawnedProgram nohup(quiet(arguments("nohup", kEndless)), [] { std::signal(SIGHUP, SIG_IGN); });
  wait_for_file("nohup/checkpoints/LATEST");
  nohup.send(SIGHUP);
  const std::size_t then = bytes("nohup/log.jsonl").size();
  wait_until([&] { return bytes("nohup/log.jsonl").size() > then + 1000 || nohup.ended(); });
  EXPECT_FALSE(contains(bytes("err"), "stopping"));
  nohup.send(SIGTERM);
  EXPECT_EQ(nohup.exit_code(), 130) << bytes("err");
}

TEST_F(Signals, BeforeTheFirstUpdateThereIsNothingToSave) {
  // The run first makes 200,000 pairs, so the signal arrives before the first update.
  SpawnedProgram program(quiet(arguments("run", "--set data.task=numbers --set train.steps=10")));
  wait_until([&] { return program.has("SigCgt", SIGTERM) || program.ended(); });
  program.send(SIGTERM);
  EXPECT_EQ(program.exit_code(), 130) << bytes("err");
  EXPECT_EQ(bytes("err"), "\ninterrupted before the first update: there is nothing to save\n");
  EXPECT_FALSE(exists("run/checkpoints/LATEST"));
}

TEST_F(Signals, OneEndsACommandThatDoesNotTrain) {
  ASSERT_EQ(train("run").exit_code, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);  // the program waits for input that never comes
    SpawnedProgram program(quiet("translate " + files_ / "run"), [&] { dup2(ends[0], STDIN_FILENO); });
    wait_until([&] { return program.status("Threads") != "1" || program.ended(); });
    program.send(signal);
    EXPECT_EQ(program.end_signal(), signal);
    for (const int end : ends) ::close(end);
  }
}

TEST_F(Signals, StoppedJobsGoOn) {
  SpawnedProgram program(quiet(arguments("run", kEndless)));
  wait_for_file("run/checkpoints/LATEST");
  program.send(SIGTSTP);
  const int status = program.wait(WUNTRACED);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGTSTP);
  const std::string then = bytes("run/log.jsonl");
  program.send(SIGCONT);
  wait_until([&] { return bytes("run/log.jsonl").size() > then.size(); });
  program.send(SIGINT);
  EXPECT_EQ(program.exit_code(), 130);
}

TEST_F(Signals, ChildrenBlockNone) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const ChildResult child = run_child({"cp", "/proc/self/status", files_ / "status"}, /*quiet=*/false);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_TRUE(child.succeeded());
  EXPECT_TRUE(contains(bytes("status"), "\nSigBlk:\t0000000000000000\n"));
  EXPECT_EQ(run_child({"no-such-program"}, true).error, ENOENT);
  EXPECT_EQ(run_child({"sh", "-c", "exit 7"}, true).status, 7);
  EXPECT_EQ(run_child({"sh", "-c", "kill -KILL $$"}, true).status, -1);
}

TEST_F(Signals, ChildrenAreWaitedForWhereTheirSignalIsIgnored) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_child({"sh", "-c", "exit 7"}, true).status, 7);
  std::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace foldgrad::testing
