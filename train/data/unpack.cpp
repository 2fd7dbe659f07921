#include "train/data/unpack.h"

#include "engine/files/atomic_file.h"
#include "engine/files/file.h"
#include "train/system/child_process.h"

namespace foldgrad {

void unpack(const std::string& archive, const std::string& directory) {
  make_directories(directory);
  const ChildResult tar = run_child({"tar", "-xzf", archive, "-C", directory}, /*quiet=*/false);
  if (tar.error != 0) throw FileError(archive, "cannot be unpacked, since tar cannot be started", tar.error);
  if (!tar.succeeded()) throw FileError(archive, "cannot be unpacked by tar");
}

}  // namespace foldgrad
