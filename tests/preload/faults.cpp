// A library for LD_PRELOAD that makes one call on the files of a directory fail, or kills the process at that call.
//
//   FAULTS_BELOW   absolute path of the directory; calls on other files work as usual
//   FAULTS_AT      index of the call, from 0
//   FAULTS_ERROR   errno of the failure; with 0 the process gets SIGKILL
//   FAULTS_COUNT   the file to which the number of calls is written when the process exits
//
// A failing write() first writes half of its data. The functions call the kernel directly, instead of libc. sleep()
// returns at once, so that programs retry without delay.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace {

constexpr int kMostDescriptors = 1024;
bool ours[kMostDescriptors];  // for each descriptor, true if its file is in the directory
long calls = 0;               // counted atomically, since several threads may call
const char* below = getenv("FAULTS_BELOW");
const char* count_file = getenv("FAULTS_COUNT");
const long fault_at = getenv("FAULTS_AT") ? atol(getenv("FAULTS_AT")) : -1;
const int fault_error = getenv("FAULTS_ERROR") ? atoi(getenv("FAULTS_ERROR")) : 0;

bool is_ours(int descriptor) { return descriptor >= 0 && descriptor < kMostDescriptors && ours[descriptor]; }

bool is_ours(int at, const char* path) {
  if (path[0] != '/') return is_ours(at);
  return below && strncmp(path, below, strlen(below)) == 0;
}

int keep(int descriptor, bool is_ours) {
  if (descriptor >= 0 && descriptor < kMostDescriptors) ours[descriptor] = is_ours;
  return descriptor;
}

bool is_next(bool is_ours) { return is_ours && __atomic_load_n(&calls, __ATOMIC_SEQ_CST) == fault_at; }

// Counts a call. If the call must fail, sets errno and returns true, or kills the process.
bool fails(bool is_ours) {
  if (!is_ours || __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) != fault_at) return false;
  if (fault_error == 0) kill(getpid(), SIGKILL);
  errno = fault_error;
  return true;
}

// Returns -1 with errno set, or the kernel's result.
template <class... Arguments>
long call(bool is_ours, long number, Arguments... arguments) {
  return fails(is_ours) ? -1 : syscall(number, arguments...);
}

__attribute__((destructor)) void write_count() {
  if (!count_file) return;
  char text[32];
  const int length = snprintf(text, sizeof text, "%ld", calls);
  const long file = syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  syscall(SYS_write, file, text, long(length));
  syscall(SYS_close, file);
}

int open_at(int at, const char* path, int flags, va_list more) {
  const int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, int) : 0;
  const bool mine = is_ours(at, path);
  return keep(int(call(mine, SYS_openat, at, path, flags, mode)), mine);
}

}  // namespace

extern "C" {

#define OPENS(name, at, ...)                               \
  int name(__VA_ARGS__ const char* path, int flags, ...) { \
    va_list more;                                          \
    va_start(more, flags);                                 \
    const int file = open_at(at, path, flags, more);       \
    va_end(more);                                          \
    return file;                                           \
  }
#define DIRECTORY int at,
OPENS(open, AT_FDCWD)
OPENS(open64, AT_FDCWD)
OPENS(openat, at, DIRECTORY)
OPENS(openat64, at, DIRECTORY)

ssize_t write(int file, const void* data, size_t bytes) {
  if (is_next(is_ours(file)) && bytes > 1) syscall(SYS_write, file, data, bytes / 2);
  return call(is_ours(file), SYS_write, file, data, bytes);
}
ssize_t read(int file, void* data, size_t bytes) { return call(is_ours(file), SYS_read, file, data, bytes); }
ssize_t pread(int file, void* data, size_t bytes, off_t at) {
  return call(is_ours(file), SYS_pread64, file, data, bytes, at);
}
ssize_t pread64(int file, void* data, size_t bytes, off_t at) { return pread(file, data, bytes, at); }
int ftruncate(int file, off_t bytes) noexcept { return int(call(is_ours(file), SYS_ftruncate, file, bytes)); }
int ftruncate64(int file, off_t bytes) noexcept { return ftruncate(file, bytes); }
int flock(int file, int operation) noexcept { return int(call(is_ours(file), SYS_flock, file, operation)); }
// Does not wait for the disk, since the tests do not crash the machine.
int fsync(int file) { return fails(is_ours(file)) ? -1 : 0; }
int fdatasync(int file) { return fsync(file); }
ssize_t sendfile(int to, int from, off_t* at, size_t bytes) noexcept {
  return call(is_ours(to), SYS_sendfile, to, from, at, bytes);
}
ssize_t sendfile64(int to, int from, off_t* at, size_t bytes) noexcept { return sendfile(to, from, at, bytes); }
int close(int file) {
  const bool mine = is_ours(file);
  keep(file, false);
  if (is_next(mine) && fault_error != 0) syscall(SYS_close, file);  // a close() that fails also closes the file
  return int(call(mine, SYS_close, file));
}
int rename(const char* from, const char* to) noexcept {
  return int(call(is_ours(AT_FDCWD, to), SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return int(call(is_ours(to_at, to), SYS_renameat2, from_at, from, to_at, to, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return int(call(is_ours(AT_FDCWD, path), SYS_mkdirat, AT_FDCWD, path, mode));
}
int link(const char* from, const char* to) noexcept {
  return int(call(is_ours(AT_FDCWD, to), SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char* path) noexcept { return int(call(is_ours(AT_FDCWD, path), SYS_unlinkat, AT_FDCWD, path, 0)); }
int unlinkat(int at, const char* path, int flags) noexcept {
  return int(call(is_ours(at, path), SYS_unlinkat, at, path, flags));
}
int rmdir(const char* path) noexcept {
  return int(call(is_ours(AT_FDCWD, path), SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
int remove(const char* path) noexcept {
  const int done = int(call(is_ours(AT_FDCWD, path), SYS_unlinkat, AT_FDCWD, path, 0));
  return done == 0 || errno != EISDIR ? done : int(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
DIR* opendir(const char* path) {
  const int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return file < 0 ? nullptr : fdopendir(file);
}
unsigned sleep(unsigned) { return 0; }

}  // extern "C"
