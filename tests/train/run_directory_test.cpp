#include "train/run_directory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>

#include "engine/file.h"
#include "tests/engine/error_message.h"
#include "tests/engine/temporary_directory.h"
#include "train/event_log.h"

namespace foldgrad {
namespace {

using namespace testing;

TEST(EventLog, IsInTheFileLineByLine) {
  const TemporaryDirectory directory;
  EventLog log(directory / "log.jsonl");
  log.write({{"event", "step"}, {"loss", 0.1}, {"lr", 5e-4}, {"n", 3}});
  EXPECT_EQ(read_bytes(directory / "log.jsonl"), "{\"event\":\"step\",\"loss\":0.1,\"lr\":0.0005,\"n\":3}\n");
  log.write({{"loss", std::numeric_limits<double>::quiet_NaN()}, {"text", "\xff"}});
  EXPECT_EQ(read_bytes(directory / "log.jsonl").substr(46), "{\"loss\":null,\"text\":\"\xef\xbf\xbd\"}\n");
  EXPECT_THROW(log.write(3), std::invalid_argument);
}

TEST(EventLog, ResumesWhereTheCheckpointWas) {
  const TemporaryDirectory directory;
  const std::string path = directory / "log.jsonl";
  std::uint64_t offset = 0;
  {
    EventLog log(path);
    log.write({{"step", 1}});
    offset = log.sync();
    log.write({{"step", 2}});
  }
  write_bytes(path, read_bytes(path) + "{\"step");  // what a kill leaves
  {
    EventLog log(path, offset);
    log.write({{"step", 20}});
    EXPECT_EQ(log.sync(), read_bytes(path).size());
  }
  EXPECT_EQ(read_bytes(path), "{\"step\":1}\n{\"step\":20}\n");
  EventLog(path).write({{"step", 3}});
  EXPECT_EQ(read_bytes(path), "{\"step\":1}\n{\"step\":20}\n{\"step\":3}\n");
  EXPECT_EQ(message<FileError>([&] { EventLog log(path, 1000); }),
            path + ": must have at least the 1000 bytes that it had when the checkpoint was saved, got 34");
  EXPECT_EQ(message<FileError>([&] { EventLog log(directory / "no/log"); }),
            (directory / "no/log") + ": cannot be opened: No such file or directory");
}

TEST(EventLog, EndsWithAWholeLineWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  EventLog log(directory / "log.jsonl");
  log.write({{"step", 1}});
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit = {15, before.rlim_max};  // four bytes of the next line
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string refusal = message<FileError>([&] { log.write({{"step", 2}}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(refusal, (directory / "log.jsonl") + ": cannot be written: File too large");
  EXPECT_EQ(read_bytes(directory / "log.jsonl"), "{\"step\":1}\n");
  log.write({{"step", 3}});
  EXPECT_EQ(read_bytes(directory / "log.jsonl"), "{\"step\":1}\n{\"step\":3}\n");
}

TEST(RunDirectory, HoldsConfigurationCommandsAndEnvironment) {
  const TemporaryDirectory directory;
  const RunDirectory run(directory / "runs/a");
  EXPECT_FALSE(run.has_run());
  run.create("[train]\n", {"foldgrad", "train", "a b.toml", "--set", "data.source=it's", ""}, {{"seed", 1}});
  EXPECT_TRUE(run.has_run());
  EXPECT_EQ(read_bytes(run.config()), "[train]\n");
  EXPECT_EQ(read_bytes(run.environment()), "{\n  \"seed\": 1\n}\n");
  const std::string first = "foldgrad train 'a b.toml' --set 'data.source=it'\\''s' ''\n";
  EXPECT_EQ(read_bytes(run.command()), first);
  EXPECT_TRUE(std::filesystem::is_directory(run.checkpoints()));
  run.resume("[data]\n", {"foldgrad", "train", "--resume", "latest"}, {{"seed", 2}});
  EXPECT_EQ(read_bytes(run.command()), first + "foldgrad train --resume latest\n");
  EXPECT_EQ(read_bytes(run.config()), "[data]\n");
  EXPECT_EQ(message<FileError>([&] { run.create("", {}, {}); }),
            (directory / "runs/a") + ": a run is there already; --resume goes on with it");
  write_bytes(directory / "file", "");
  EXPECT_EQ(message<FileError>([&] { RunDirectory(directory / "file").create("", {}, {}); }),
            (directory / "file/checkpoints") + ": cannot be created: Not a directory");
}

TEST(RunDirectory, TheEnvironmentNamesBuildMachineAndData) {
  const auto e = describe_environment({"0.1", "abc", "GNU 12", "-O3"}, 7, {{"train.de", "00ff"}});
  EXPECT_EQ(e.at("commit"), "abc");
  EXPECT_EQ(e.at("flags"), "-O3");
  EXPECT_EQ(e.at("seed"), 7);
  EXPECT_EQ(e.at("data").at("train.de"), "00ff");
  EXPECT_GE(e.at("threads").get<int>(), 1);
  EXPECT_TRUE(e.at("libraries").contains("fmt"));
}

}  // namespace
}  // namespace foldgrad
