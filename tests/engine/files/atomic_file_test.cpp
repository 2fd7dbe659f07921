#include "engine/files/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/engine/files/temporary_directory.h"
#include "tests/harness/compare.h"

namespace foldgrad {
namespace {

using namespace testing;

// Limits the size of each file of this process to `bytes` for the lifetime of the object. This acts like a full disk,
// but needs no root privileges.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

// Returns the message and the errno of the FileError that `body` throws.
template <class Body>
std::pair<std::string, int> failure_of(const Body& body) {
  try {
    body();
  } catch (const FileError& e) {
    return {e.what(), e.error()};
  }
  return {"no error", 0};
}

// Returns true if the message is `before`, the numbers in the temporary file's name, and `after`.
bool matches(const std::string& message, const std::string& before, const std::string& after) {
  return message.size() > before.size() + after.size() && message.starts_with(before) && message.ends_with(after);
}

class AtomicFileTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
};

TEST_F(AtomicFileTest, CreatesAndReplaces) {
  const std::string content("a\0\xff\n", 4);
  write_file_atomically(path, content);
  EXPECT_EQ(read_bytes(path), content);
  write_file_atomically(path, "");
  EXPECT_EQ(read_bytes(path), "");
  EXPECT_EQ(directory.entries(), 1);
}

TEST_F(AtomicFileTest, PermissionsFollowTheUmask) {
  const mode_t before = umask(027);
  write_file_atomically(path, "x");
  umask(before);
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, APathWithoutADirectoryIsInTheCurrentOne) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  write_file_atomically("file", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_bytes(path), "x");
}

TEST_F(AtomicFileTest, NothingIsSeenBeforeCommitAndNothingStaysWithoutIt) {
  write_bytes(path, "old");
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(read_bytes(path), "old");
    EXPECT_EQ(directory.entries(), 2);
  }
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(directory.entries(), 1);
}

TEST_F(AtomicFileTest, TwoWritersDoNotMix) {
  AtomicFile first(path), second(path);
  first.write("first");
  second.write("2nd");
  second.commit();
  EXPECT_EQ(read_bytes(path), "2nd");
  first.commit();
  EXPECT_EQ(read_bytes(path), "first");
  EXPECT_EQ(directory.entries(), 1);
}

TEST_F(AtomicFileTest, LeftoversOfAKilledProcessAreNoObstacle) {
  const std::string start = path + "." + std::to_string(getpid()) + "-";
  for (int count = 0; count < 1000; ++count) write_bytes(start + std::to_string(count) + ".part", "left");
  write_file_atomically(path, "new");
  EXPECT_EQ(read_bytes(path), "new");
  EXPECT_EQ(directory.entries(), 1001);
}

TEST_F(AtomicFileTest, TheOldFileSurvivesAFullDisk) {
  write_bytes(path, "old");
  const auto [message, error] = failure_of([&] {
    const FileSizeLimit limit(1000);
    AtomicFile file(path);
    file.write(std::string(999, 'x'));
    file.write(std::string(2, 'y'));  // only the first of the two bytes fits, and is written first
  });
  EXPECT_EQ(error, EFBIG);
  EXPECT_TRUE(matches(message, path + ".", ".part: cannot be written: File too large")) << message;
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(directory.entries(), 1);
}

TEST_F(AtomicFileTest, TheDirectoryIsMissing) {
  const std::string missing = directory / "missing/file";
  const auto [message, error] = failure_of([&] { write_file_atomically(missing, "x"); });
  EXPECT_EQ(error, ENOENT);
  EXPECT_EQ(message, missing + ": cannot be created: No such file or directory");
  EXPECT_EQ(directory.entries(), 0);
}

TEST_F(AtomicFileTest, TheDirectoryIsAFile) {
  write_bytes(path, "old");
  const auto [message, error] = failure_of([&] { write_file_atomically(path + "/x", "x"); });
  EXPECT_EQ(error, ENOTDIR);
  EXPECT_EQ(message, path + "/x: cannot be created: Not a directory");
  EXPECT_EQ(read_bytes(path), "old");
}

TEST_F(AtomicFileTest, DirectoriesAndPipesAreNotReplaced) {
  const std::string pipe = directory / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(failure_of([&] { write_file_atomically(pipe, "x"); }).first, pipe + ": is not a regular file");
  EXPECT_EQ(failure_of([&] { write_file_atomically(directory.path(), "x"); }).first,
            directory.path() + ": is not a regular file");
  EXPECT_EQ(directory.entries(), 1);
}

TEST_F(AtomicFileTest, ATargetThatBecameADirectoryMeanwhile) {
  const auto [message, error] = failure_of([&] {
    AtomicFile file(path);
    file.write("x");
    std::filesystem::create_directory(path);
    file.commit();
  });
  EXPECT_EQ(error, EISDIR);
  EXPECT_TRUE(matches(message, path + ": cannot be replaced by " + path + ".", ".part: Is a directory")) << message;
  EXPECT_EQ(directory.entries(), 1);
}

// A symbolic link to itself stands for a directory that exists but cannot be listed.
TEST_F(AtomicFileTest, OnlyAnAbsentDirectoryMayBeOptional) {
  EXPECT_TRUE(paths_in(directory / "absent", /*optional=*/true).empty());
  ASSERT_EQ(symlink("loop", (directory / "loop").c_str()), 0);
  EXPECT_THROW(paths_in(directory / "loop", /*optional=*/true), FileError);
}

TEST_F(AtomicFileTest, ReadsAnywhereAndReportsWhatIsMissing) {
  write_bytes(path, "0123456789");
  const InputFile file(path);
  EXPECT_EQ(file.size(), 10u);
  std::string part(4, ' ');
  file.read(3, part.data(), 4);
  EXPECT_EQ(part, "3456");
  file.read(10, nullptr, 0);
  EXPECT_EQ(message_of([&] { file.read(8, part.data(), 4); }),
            path + ": expected 2 bytes starting at byte 10, got none");
  std::filesystem::resize_file(path, 2);
  EXPECT_EQ(message_of([&] { file.read(3, part.data(), 4); }),
            path + ": expected 4 bytes starting at byte 3, got none");
}

}  // namespace
}  // namespace foldgrad
