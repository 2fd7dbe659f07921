// Tests every command with standard streams that are closed, full or broken.
#include <sys/socket.h>

#include "engine/files/safetensors.h"
#include "engine/tensor.h"
#include "models/onnx/graph.h"
#include "tests/train/spawned_program.h"
#include "tests/train/tiny_run.h"

namespace foldgrad::testing {
namespace {

enum Fault { kClosed, kFull, kBroken };
constexpr const char* kFaultNames[] = {"closed", "full", "broken"};

// Closes `stream`, or redirects it to a full device or a broken pipe. Runs in the child process.
void spoil(int stream, Fault fault) {
  int pipe_ends[2] = {};
  if (fault == kClosed) {
    ::close(stream);
  } else if (fault == kFull) {
    dup2(open("/dev/full", O_RDWR), stream);
  } else if (pipe(pipe_ends) == 0) {
    dup2(pipe_ends[1], stream);
    for (const int end : pipe_ends) ::close(end);
  }
}

class Streams : public TinyRun {
 protected:
  Streams() {
    EXPECT_EQ(train("run").exit_code, 0);
    const Tensor ids = Tensor::of<std::int64_t>({1, 2}, {4, 2});
    write_safetensors(files_ / "ids", {{"source", ids}, {"input", ids}});
  }

  // Replaces each @ with the path of the test's directory, and each # with a path in it that does not exist yet.
  std::string filled(std::string arguments) {
    for (std::size_t at = 0; (at = arguments.find_first_of("@#", at)) != std::string::npos;)
      arguments.replace(at, 1, files_.path() + (arguments[at] == '@' ? "/" : "/new" + std::to_string(++names_)));
    return arguments;
  }
  ProgramResult run(const std::string& arguments, int spoilt = -1, Fault fault = kClosed) {
    for (const char* name : {"out", "err"}) std::filesystem::remove(files_ / name);
    std::string redirected = filled(arguments);
    if (spoilt != STDOUT_FILENO) redirected += " >" + files_ / "out";
    if (spoilt != STDERR_FILENO) redirected += " 2>" + files_ / "err";
    SpawnedProgram program(redirected, [&] {
      (void)!chdir(FOLDGRAD_SOURCE_DIR);
      if (spoilt >= 0) spoil(spoilt, fault);
    });
    const int exit_code = program.exit_code();
    return {exit_code, exists("out") ? bytes("out") : "", exists("err") ? bytes("err") : ""};
  }

  int names_ = 0;
};

constexpr const char* kCommands[] = {
    "--help",
    "--version",
    "average @run/checkpoints/step-00000004 @run -o #",
    "compare @run",
    "compare --json @run",
    "config",
    "data info @",
    "data verify @",
    "data prepare @ #",
    "demo --help",
    "doctor",
    "eval @run --split valid --data-dir @",
    "export @run -o #",
    "fold @run -o #",
    "graph @run --dot -",
    "graph @run --dot #",
    "inspect @run",
    "inspect @run --json",
    "norms",
    "norms --json",
    "recalibrate @run -o # --data-dir @",
    "report @run -o #",
    "run @run --input @ids --output #",
    "train @config.toml --data-dir @ --out #",
    "translate @run <@train.de",
    "verify @run",
    "verify-traces tests/golden/ln_0.safetensors",
};

TEST_F(Streams, WhatCannotBePrintedIsAnErrorOfEveryCommand) {
  int printing = 0;
  for (const char* command : kCommands) {
    const ProgramResult whole = run(command);
    ASSERT_EQ(whole.exit_code, 0) << command << "\n" << whole.err;
    for (const Fault fault : {kClosed, kFull, kBroken}) {
      const ProgramResult spoilt = run(command, STDOUT_FILENO, fault);
      const int code = whole.out.empty() ? 0 : fault == kBroken ? 141 : 3;
      EXPECT_EQ(spoilt.exit_code, code) << command << ", stdout " << kFaultNames[fault];
      const char* reasons[] = {"Bad file descriptor", "No space left on device"};
      const std::string error = fault == kBroken
                                    ? "cannot be written"
                                    : std::string("error: stdout: cannot be written: ") + reasons[fault] + "\n";
      EXPECT_EQ(contains(spoilt.err, error), code == 3) << command << ", stdout " << kFaultNames[fault] << "\n"
                                                        << spoilt.err;
    }
    printing += !whole.out.empty();
  }
  EXPECT_GT(printing, 20);
}

TEST_F(Streams, MessagesThatCannotBePrintedChangeNothing) {
  for (const char* command : {"train @config.toml --data-dir @ --out #", "graph @run --dot -", "nonsense",
                              "inspect @no", "verify-traces @config.toml", "data verify @run", "data prepare @run #"}) {
    const ProgramResult whole = run(command);
    ASSERT_NE(whole.err, "") << command;
    for (const Fault fault : {kClosed, kFull, kBroken})
      EXPECT_EQ(run(command, STDERR_FILENO, fault).exit_code, whole.exit_code)
          << command << ", stderr " << kFaultNames[fault];
  }
}

TEST_F(Streams, NoFileTakesTheNumberOfAClosedStream) {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const std::string name = "closed" + std::to_string(stream);
    run("train @config.toml --data-dir @ --out @" + name, stream, kClosed);
    EXPECT_EQ(events(name, "end").size(), 1u);  // events() also fails if a line of the log is not JSON
    expect_same_numbers("run", name, "step-00000005");
  }
}

TEST_F(Streams, WhatCannotBeReadIsNoEndOfTheText) {
  const std::string whole = run("translate @run <@train.de").out;
  for (const auto& [from, reason] : {std::pair("<&-", "Bad file descriptor"), {"</", "Is a directory"}}) {
    const ProgramResult r = run(std::string("translate @run ") + from);
    EXPECT_EQ(r.exit_code, 3) << from;
    EXPECT_EQ(r.out, "") << from;
    EXPECT_EQ(r.err, std::string("error: stdin: cannot be read: ") + reason + "\n") << from;
  }
  // The connection breaks in the third line: closing a socket that has unread data resets its peer.
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const std::string text = bytes("train.de"), sent = text.substr(0, text.find('\n', text.find('\n') + 1) + 5);
  ASSERT_EQ(::write(ends[0], sent.data(), sent.size()), ssize_t(sent.size()));
  ASSERT_EQ(::write(ends[1], "unread", 6), 6);
  ::close(ends[0]);
  SpawnedProgram program(filled("translate @run >@out 2>@err"), [&] { dup2(ends[1], STDIN_FILENO); });
  ::close(ends[1]);
  EXPECT_EQ(program.exit_code(), 3);
  EXPECT_EQ(bytes("err"), "error: stdin: cannot be read: Connection reset by peer\n");
  EXPECT_EQ(bytes("out"), whole.substr(0, whole.find('\n', whole.find('\n') + 1) + 1));
}

}  // namespace
}  // namespace foldgrad::testing
