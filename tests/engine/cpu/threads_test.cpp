#include "engine/cpu/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/error_message.h"

namespace foldgrad::testing {
namespace {

class Threads : public ::testing::Test {
 protected:
  void TearDown() override { set_threads(before_); }
  const int before_ = threads();
};

std::vector<int> runs_of_each(std::int64_t pieces) {
  std::vector<int> runs(static_cast<std::size_t>(pieces));
  parallel(pieces, [&](std::int64_t piece) { ++runs[std::size_t(piece)]; });
  return runs;
}

// Runs n pieces that wait for each other, so the call hangs unless n threads take part. Then each piece calls then().
template <class Then>
void run_together(int n, const Then& then) {
  std::atomic<int> inside = 0;
  parallel(n, [&](std::int64_t) {
    ++inside;
    while (inside < n) std::this_thread::yield();
    then();
  });
}

TEST_F(Threads, EachPieceRunsOnce) {
  for (const int n : {1, 2, 3, 7}) {
    set_threads(n);
    EXPECT_EQ(threads(), n);
    for (const std::int64_t pieces : {0, 1, 2, 3, 6, 7, 8, 100, 10000})
      for (int repeat = 0; repeat < 20; ++repeat)
        ASSERT_EQ(runs_of_each(pieces), std::vector<int>(std::size_t(pieces), 1)) << n << " threads";
  }
}

TEST_F(Threads, SeveralTakePart) {
  set_threads(3);
  run_together(3, [] {});
}

// Each of three callers has its own helper. The calls are so short that they end while a helper is still waking up,
// working or falling asleep.
TEST_F(Threads, ManyShortCallsFromThreeCallers) {
  constexpr int kCalls = 350'000;
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> wrong = 0;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&] {
      set_threads(2);
      for (int call = 0; call < kCalls; ++call) {
        const std::int64_t pieces = call % 4;  // the helper takes part if there are two or three pieces
        std::atomic<std::int64_t> sum = 0;
        parallel(pieces, [&](std::int64_t piece) { sum += piece + 1; });
        wrong += sum != pieces * (pieces + 1) / 2;
        if (call % 5000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

std::set<int> tasks() {
  std::set<int> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    all.insert(std::stoi(task.path().filename()));
  return all;
}

// Starts a helper of the calling thread, which must not have one yet. Returns the system's id of the helper, or 0 if
// there is no new thread.
int make_helper() {
  const std::set<int> before = tasks();
  set_threads(2);
  runs_of_each(2);
  for (const int task : tasks())
    if (!before.contains(task)) return task;
  return 0;
}

// Stops one thread of the parent process until the parent closes the pipe `release`. Writes y to the pipe `held` if
// that succeeds, otherwise n. Runs in a child process, since a process cannot stop one of its own threads.
[[noreturn]] void hold(int task, int held, int release) {
  int status = 0;
  char answer = 'n';
  if (ptrace(PTRACE_SEIZE, task, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, task, 0, 0) == 0 &&
      waitpid(task, &status, __WALL) == task)
    answer = 'y';
  if (write(held, &answer, 1) == 1) static_cast<void>(!read(release, &answer, 1));
  _exit(0);  // lets the thread go
}

TEST_F(Threads, AHelperThatIsHeldDelaysNoCall) {
  std::thread([&] {
    const int task = make_helper();
    int held[2], release[2];
    ASSERT_TRUE(pipe(held) == 0 && pipe(release) == 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    const pid_t holder = fork();
    if (holder == 0) {
      close(release[1]);
      hold(task, held[1], release[0]);
    }
    char answer = 'n';
    ASSERT_EQ(read(held[0], &answer, 1), 1);
    for (int call = 0; answer == 'y' && call < 1000; ++call) ASSERT_EQ(runs_of_each(16), std::vector<int>(16, 1));
    close(release[1]);
    waitpid(holder, nullptr, 0);
    if (answer != 'y') GTEST_SKIP() << "ptrace may not stop threads here";
    run_together(2, [] {});
  }).join();
}

TEST_F(Threads, TheFirstPieceThatFailsIsReported) {
  for (const int n : {1, 2, 3}) {
    set_threads(n);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<int> runs(100);
      const auto fail = [&](std::int64_t piece) {
        ++runs[std::size_t(piece)];
        if (piece == 37 || piece == 40 || piece == 90) throw std::runtime_error("piece " + std::to_string(piece));
      };
      EXPECT_EQ(message<std::runtime_error>([&] { parallel(100, fail); }), "piece 37");
      for (int piece = 0; piece <= 37; ++piece) ASSERT_EQ(runs[std::size_t(piece)], 1) << piece;
      ASSERT_EQ(runs_of_each(100), std::vector<int>(100, 1));  // later calls work as usual
    }
  }
}

TEST_F(Threads, ALoopInsideAPieceIsPlain) {
  set_threads(3);
  std::vector<int> runs(12);
  parallel(3, [&](std::int64_t outer) {
    EXPECT_EQ(threads(), 1);
    std::int64_t last = -1;
    parallel(4, [&](std::int64_t inner) {
      EXPECT_EQ(inner, last + 1);
      last = inner;
      ++runs[std::size_t(4 * outer + inner)];
    });
  });
  EXPECT_EQ(runs, std::vector<int>(12, 1));
  EXPECT_EQ(threads(), 3);
}

// A program reads OMP_NUM_THREADS and its set of processors only once. So this test starts its own program again, with
// four threads on one processor.
TEST_F(Threads, FourOnOneProcessor) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (const char* variable = std::getenv("OMP_NUM_THREADS"); variable && variable == std::string("4,2")) {
    EXPECT_EQ(threads(), 4);
    EXPECT_EQ(CPU_COUNT(&before), 1);
    return;
  }
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  const pid_t child = fork();
  if (child == 0) {
    setenv("OMP_NUM_THREADS", "4,2", 1);
    sched_setaffinity(0, sizeof one, &one);
    execl("/proc/self/exe", "threads_test", "--gtest_brief=1",
          "--gtest_filter=Threads.FourOnOneProcessor:Threads.EachPieceRunsOnce:Threads.SeveralTakePart", nullptr);
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// MPI or OpenMP may bind the calling thread to one processor. Its helpers must still be allowed to run on all
// processors of the process.
TEST_F(Threads, HelpersRunWhereTheProcessMayAndBlockSignals) {
  std::thread([] {
    cpu_set_t process, one;
    ASSERT_EQ(sched_getaffinity(getpid(), sizeof process, &process), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    set_threads(2);
    const std::thread::id caller = std::this_thread::get_id();
    run_together(2, [&] {
      if (std::this_thread::get_id() == caller) return;
      cpu_set_t mine;
      EXPECT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
      EXPECT_TRUE(CPU_EQUAL(&mine, &process));
      sigset_t blocked;
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      for (const int signal : {SIGINT, SIGTERM, SIGPROF, SIGUSR1, SIGCHLD}) EXPECT_TRUE(sigismember(&blocked, signal));
    });
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_FALSE(sigismember(&blocked, SIGUSR1));
  }).join();
}

TEST_F(Threads, AChildProcessStartsItsOwn) {
  set_threads(2);
  runs_of_each(8);
  const pid_t child = fork();
  if (child == 0) {
    run_together(2, [] {});
    _exit(runs_of_each(100) == std::vector<int>(100, 1) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(runs_of_each(100), std::vector<int>(100, 1));
}

TEST_F(Threads, RefusedNumbers) {
  EXPECT_EQ(message<std::invalid_argument>([] { set_threads(0); }),
            "threads: the number of threads must be at least 1, got 0");
  EXPECT_EQ(message<std::invalid_argument>([] { parallel(std::int64_t(1) << 31, [](std::int64_t) {}); }),
            "parallel: a loop must have fewer than 2^31 pieces, got 2147483648");
}

}  // namespace
}  // namespace foldgrad::testing
