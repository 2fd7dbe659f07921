// Tests that a save that fails or is killed leaves a valid checkpoint. The tests make each file operation of the save
// fail, or kill the process there. For this, the test program replaces functions of libc; the code under test,
// including std::filesystem, is unchanged.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/files/file.h"
#include "tests/engine/files/temporary_directory.h"
#include "tests/train/checkpoints/contents.h"

namespace {

// The operation with index `at`, counted from 0 since arm(), fails with `error`. If `error` is negative, the process is
// killed instead.
struct Fault {
  long at = -1;
  int error = 0;
  long count = 0;
  bool on = false;
} fault;

// The files and directories that have changed since they were last flushed to the disk. Updated only while `tracked` is
// true.
struct Unsynced {
  bool tracked = false;
  std::map<int, std::string> opened;
  std::set<std::string> paths;
  std::vector<std::string> renamed;  // paths that were renamed before they were flushed

  void add(const std::string& path) {
    if (tracked) paths.insert(path);
  }
  void add_parent(const std::string& path) { add(path.substr(0, path.rfind('/'))); }
  void rename(const std::string& from, const std::string& to) {
    if (!tracked) return;
    for (const std::string& path : paths)
      if (path == from || path.rfind(from + "/", 0) == 0) renamed.push_back(path);
    add_parent(to);
  }
} unsynced;

bool can_exchange = true;  // if false, renameat2() cannot swap two names

bool fails_here() {
  if (!fault.on || fault.count++ != fault.at) return false;
  if (fault.error < 0) _exit(99);
  errno = fault.error;
  return true;
}

}  // namespace

extern "C" {
ssize_t write(int descriptor, const void* data, size_t bytes) {
  if (fault.on && fault.count == fault.at && bytes > 1) {  // half of the bytes are written before the failure
    syscall(SYS_write, descriptor, data, bytes / 2);
    fails_here();
    return -1;
  }
  if (unsynced.tracked) unsynced.add(unsynced.opened[descriptor]);
  return fails_here() ? -1 : syscall(SYS_write, descriptor, data, bytes);
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & O_CREAT) ? va_arg(arguments, int) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) && fails_here()) return -1;
  const int descriptor = int(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (unsynced.tracked) {
    unsynced.opened[descriptor] = path;
    if (flags & O_CREAT) unsynced.add_parent(path);
  }
  return descriptor;
}
int fsync(int descriptor) {  // does not wait for the disk, since the tests do not crash the machine
  if (fails_here()) return -1;
  if (unsynced.tracked) unsynced.paths.erase(unsynced.opened[descriptor]);
  return 0;
}
int rename(const char* from, const char* to) noexcept {
  unsynced.rename(from, to);
  return fails_here() ? -1 : int(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  if ((flags & RENAME_EXCHANGE) && !can_exchange) {
    errno = EINVAL;
    return -1;
  }
  return fails_here() ? -1 : int(syscall(SYS_renameat2, from_at, from, to_at, to, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (fails_here()) return -1;
  const int result = int(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0) unsynced.add_parent(path);
  return result;
}
int unlink(const char* path) noexcept { return fails_here() ? -1 : int(syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }
int unlinkat(int at, const char* path, int flags) noexcept {
  return fails_here() ? -1 : int(syscall(SYS_unlinkat, at, path, flags));
}
}

namespace foldgrad::testing {
namespace {

void arm(long at, int error) { fault = {at, error, 0, true}; }

SaveOptions options_of(std::int64_t step) { return {.keep = 2, .best = step}; }

// Saves the checkpoints of steps 1 and 2, which exist before the save under test.
void prepare(const TemporaryDirectory& directory) {
  for (std::int64_t step : {1, 2}) save_checkpoint(directory.path(), contents_of_step(step), options_of(step));
}

long operations_of_save(std::int64_t step) {
  const TemporaryDirectory directory;
  prepare(directory);
  arm(-1, 0);
  save_checkpoint(directory.path(), contents_of_step(step), options_of(step));
  fault.on = false;
  return fault.count;
}

// Checks that the newest checkpoint loads without warnings, and that its step is either 2, the last step that prepare()
// saved, or `step`.
void check_newest(const TemporaryDirectory& directory, std::int64_t step, long at) {
  const NewestCheckpoint newest = load_newest_checkpoint(directory.path());
  const std::int64_t got = newest.contents.step;
  EXPECT_TRUE(newest.warnings.empty()) << "operation " << at << ": " << newest.warnings.at(0);
  EXPECT_TRUE(got == 2 || got == step) << "operation " << at << ": " << got;
  EXPECT_TRUE(same(newest.contents, contents_of_step(got))) << "operation " << at;
}

void check_next_save(const TemporaryDirectory& directory, std::int64_t step, long at) {
  save_checkpoint(directory.path(), contents_of_step(step), options_of(step));
  EXPECT_EQ(load_newest_checkpoint(directory.path()).contents.step, step) << "operation " << at;
  EXPECT_EQ(directory.entries(), 4) << "operation " << at;  // LATEST, BEST, two checkpoints
}

class CheckpointFaults : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(CheckpointFaults, AKillAnywhereLeavesAWholeNewestOne) {
  const std::int64_t step = GetParam();
  const long operations = operations_of_save(step);
  ASSERT_GT(operations, 20);
  for (long at = 0; at < operations; ++at) {
    const TemporaryDirectory directory;
    prepare(directory);
    const pid_t child = fork();
    if (child == 0) {
      arm(at, -1);
      save_checkpoint(directory.path(), contents_of_step(step), options_of(step));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 99) << "operation " << at;
    check_newest(directory, step, at);
    check_next_save(directory, step, at);
  }
}

TEST_P(CheckpointFaults, AFullOrBrokenDiskLeavesTheOldOne) {
  const std::int64_t step = GetParam();
  const long operations = operations_of_save(step);
  long reported = 0;
  for (long at = 0; at < operations; ++at) {
    const TemporaryDirectory directory;
    prepare(directory);
    const int error = at % 2 == 0 ? ENOSPC : EIO;
    arm(at, error);
    try {
      save_checkpoint(directory.path(), contents_of_step(step), options_of(step));
    } catch (const FileError& e) {
      EXPECT_EQ(e.error(), error) << e.what();
      ++reported;
    }
    fault.on = false;
    check_newest(directory, step, at);
    check_next_save(directory, step, at);
  }
  EXPECT_GT(reported, operations / 2);  // only removals may fail silently
}

TEST(CheckpointFaults, AStepIsSavedAgainWhereNamesCannotBeSwapped) {
  const TemporaryDirectory directory;
  prepare(directory);
  can_exchange = false;
  save_checkpoint(directory.path(), contents_of_step(2), options_of(2));
  can_exchange = true;
  check_newest(directory, 2, -1);
  EXPECT_EQ(directory.entries(), 4);
}

TEST(CheckpointSync, FilesAreOnTheDiskBeforeTheyAreNamed) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), contents_of_step(1), {});
  unsynced.tracked = true;
  save_checkpoint(directory.path(), contents_of_step(2), {});
  unsynced.tracked = false;
  EXPECT_EQ(unsynced.renamed, std::vector<std::string>());
  EXPECT_EQ(unsynced.paths, std::set<std::string>());
}

// The save under test saves step 3, the next step, or step 2 again.
INSTANTIATE_TEST_SUITE_P(Steps, CheckpointFaults, ::testing::Values(3, 2),
                         [](const auto& info) { return info.param == 3 ? "Next" : "Again"; });

}  // namespace
}  // namespace foldgrad::testing
