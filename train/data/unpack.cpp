#include "train/data/unpack.h"

#include <filesystem>

#include "engine/files/file.h"
#include "train/system/child_process.h"

namespace foldgrad {

void unpack(const std::string& archive, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw FileError(directory, "cannot be created", error.value());
  const ChildResult tar = run_child({"tar", "-xzf", archive, "-C", directory}, /*quiet=*/false);
  if (tar.error != 0) throw FileError(archive, "cannot be unpacked, since tar cannot be started", tar.error);
  if (!tar.succeeded()) throw FileError(archive, "cannot be unpacked by tar");
}

}  // namespace foldgrad
