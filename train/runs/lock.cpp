#include "train/runs/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "engine/files/atomic_file.h"
#include "engine/files/file.h"

namespace foldgrad {
namespace {

std::string this_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", getpid(), host);
}

}  // namespace

RunLock::RunLock(const std::string& run) {
  make_directories(run);
  const std::string path = run + "/lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw FileError(path, "cannot be opened", errno);
  // Where the file system knows no locks, there is none.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    char holder[512] = "";
    const ssize_t length = pread(descriptor_, holder, sizeof holder, 0);
    close(descriptor_);
    throw FileError(run, length > 0 ? "is being trained by " + std::string(holder, std::size_t(length))
                                    : "is being trained by another process");
  }
  // For that message alone, so that a full disk does not matter.
  const std::string holder = this_process();
  if (ftruncate(descriptor_, 0) == 0) (void)!pwrite(descriptor_, holder.data(), holder.size(), 0);
}

RunLock::~RunLock() { close(descriptor_); }

}  // namespace foldgrad
