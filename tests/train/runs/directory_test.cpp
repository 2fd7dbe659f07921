#include "train/runs/directory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "train/runs/logger.h"

// Replaces write() of libc in this program, to imitate a disk that accepts fewer bytes than it is given.
static std::size_t most_bytes_of_a_write = SIZE_MAX;
extern "C" ssize_t write(int descriptor, const void* data, size_t bytes) {
  return syscall(SYS_write, descriptor, data, std::min(bytes, most_bytes_of_a_write));
}

namespace foldgrad::testing {
namespace {

using EventLogTest = FileTest;
using RunDirectoryTest = FileTest;

TEST_F(EventLogTest, IsInTheFileLineByLine) {
  EventLog log(files_ / "log.jsonl", 0);
  log.write({{"event", "step"}, {"loss", 0.1}, {"lr", 5e-4}, {"n", 3}});
  EXPECT_EQ(bytes("log.jsonl"), "{\"event\":\"step\",\"loss\":0.1,\"lr\":0.0005,\"n\":3}\n");
  log.write({{"loss", std::numeric_limits<double>::quiet_NaN()}, {"text", "\xff"}});
  EXPECT_EQ(bytes("log.jsonl").substr(46), "{\"loss\":null,\"text\":\"\xef\xbf\xbd\"}\n");
  EXPECT_THROW(log.write(3), std::invalid_argument);
}

TEST_F(EventLogTest, IsWholeWhenItIsWrittenInParts) {
  EventLog log(files_ / "log.jsonl", 0);
  most_bytes_of_a_write = 3;
  log.write({{"event", "step"}});
  most_bytes_of_a_write = SIZE_MAX;
  EXPECT_EQ(bytes("log.jsonl"), "{\"event\":\"step\"}\n");
}

TEST_F(EventLogTest, GoesOnBehindWhatIsLeftOfIt) {
  const std::string path = files_ / "log.jsonl", line = "{\"step\":1}\n";
  const auto after_resuming = [&](const std::string& left, std::uint64_t offset, std::uint64_t missing) {
    write_bytes(path, left);
    EventLog log(path, offset);
    EXPECT_EQ(log.missing(), missing) << left;
    log.write({{"step", 2}});
    EXPECT_EQ(log.offset(), read_bytes(path).size()) << left;
    return read_bytes(path);
  };
  const std::string next = "{\"step\":2}\n";
  EXPECT_EQ(after_resuming(line + line + "{\"st", 11, 0), line + next);  // left by a killed process
  EXPECT_EQ(after_resuming(line, 1000, 989), line + next);
  EXPECT_EQ(after_resuming(line + "{\"st", 1000, 989), line + next);
  EXPECT_EQ(after_resuming(line + line, 15, 4), line + next);  // an offset within a line is from another log
  EXPECT_EQ(after_resuming("", 1000, 1000), next);
  EventLog(path, next.size()).write({{"step", 3}});
  EXPECT_EQ(read_bytes(path), next + "{\"step\":3}\n");
  EXPECT_EQ(error_of<FileError>([&] { EventLog log(files_ / "no/log", 0); }),
            "@no/log: cannot be opened: No such file or directory");
}

TEST_F(RunDirectoryTest, HoldsConfigurationCommandsAndEnvironment) {
  const RunDirectory run(files_ / "runs/a");
  EXPECT_FALSE(run.has_run());
  EXPECT_NO_THROW(run.require_no_run());
  run.begin("[train]\n", {"foldgrad", "train", "a b.toml", "--set", "data.source=it's", ""}, {{"seed", 1}});
  EXPECT_TRUE(run.has_run());
  EXPECT_EQ(read_bytes(run.config()), "[train]\n");
  EXPECT_EQ(read_bytes(run.environment()), "{\n  \"seed\": 1\n}\n");
  const std::string first = "foldgrad train 'a b.toml' --set 'data.source=it'\\''s' ''\n";
  EXPECT_EQ(read_bytes(run.command()), first);
  EXPECT_TRUE(std::filesystem::is_directory(run.checkpoints()));
  write_bytes(run.path() + "/env.json.7-0.part", "killed here");
  write_bytes(run.samples() + "/step-00000001.txt.7-1.part", "or here");
  run.begin("[data]\n", {"foldgrad", "train", "--resume", "latest"}, {{"seed", 2}});
  EXPECT_EQ(read_bytes(run.command()), first + "foldgrad train --resume latest\n");
  EXPECT_EQ(read_bytes(run.config()), "[data]\n");
  EXPECT_FALSE(std::filesystem::exists(run.path() + "/env.json.7-0.part"));
  EXPECT_TRUE(std::filesystem::is_empty(run.samples()));
  std::filesystem::remove(run.command());
  run.begin("", {"foldgrad"}, {});
  EXPECT_EQ(read_bytes(run.command()), "foldgrad\n");
  const std::string there =
      "@runs/a: already holds a run; continue it with --resume, or choose another directory with --out";
  EXPECT_EQ(error_of<FileError>([&] { run.require_no_run(); }), there);
  std::filesystem::remove(run.config());
  EXPECT_FALSE(run.has_run());
  std::filesystem::create_directory(run.checkpoints() + "/step-00000001");
  EXPECT_EQ(error_of<FileError>([&] { run.require_no_run(); }), there);
  write("file", "");
  EXPECT_EQ(error_of<FileError>([&] { RunDirectory(files_ / "file").begin("", {}, {}); }),
            "@file/checkpoints: cannot be created: Not a directory");
}

TEST_F(RunDirectoryTest, TheEnvironmentNamesBuildMachineAndData) {
  const auto e = describe_environment({"0.1", "abc", "GNU 12", "-O3"}, 7, {{"train.de", "00ff"}});
  EXPECT_EQ(e.at("commit"), "abc");
  EXPECT_EQ(e.at("flags"), "-O3");
  EXPECT_EQ(e.at("seed"), 7);
  EXPECT_EQ(e.at("data").at("train.de"), "00ff");
  EXPECT_GE(e.at("threads").get<int>(), 1);
  EXPECT_TRUE(e.at("libraries").contains("fmt"));
}

}  // namespace
}  // namespace foldgrad::testing
