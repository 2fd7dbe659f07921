// A directory for temporary files, below $TMPDIR, removed with them at the end.
#pragma once
#include <string>

namespace foldgrad {

class ScratchDirectory {
 public:
  ScratchDirectory();  // throws FileError
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace foldgrad
