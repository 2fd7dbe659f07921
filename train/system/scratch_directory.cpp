#include "train/system/scratch_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>

#include "engine/files/file.h"

namespace foldgrad {

ScratchDirectory::ScratchDirectory() {
  const char* wanted = std::getenv("TMPDIR");
  path_ = std::string(wanted && *wanted ? wanted : "/tmp") + "/foldgrad-XXXXXX";
  if (!mkdtemp(path_.data())) throw FileError(path_, "the temporary directory ($TMPDIR) cannot be created", errno);
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace foldgrad
