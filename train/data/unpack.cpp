#include "train/data/unpack.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "engine/file.h"

namespace foldgrad {

void unpack(const std::string& archive, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw FileError(directory, "cannot be created", error.value());
  std::string program = "tar", from = archive, to = directory, mode = "-xzf", into = "-C";
  char* arguments[] = {program.data(), mode.data(), from.data(), into.data(), to.data(), nullptr};
  pid_t process = 0;
  const int refused = posix_spawnp(&process, "tar", nullptr, nullptr, arguments, environ);
  if (refused != 0) throw FileError(archive, "cannot be unpacked, since tar cannot be started", refused);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw FileError(archive, "cannot be unpacked by tar");
}

}  // namespace foldgrad
