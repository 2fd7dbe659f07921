// Data sets that are not part of this repository. A test is skipped if its data set is missing.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {

// Finds $FOLDGRAD_DATA/NAME. If it does not exist, unpacks NAME from ../shared/data/ARCHIVE for the lifetime of this
// object.
class RealData {
 public:
  RealData(const std::string& name, const std::string& archive) {
    const char* data = std::getenv("FOLDGRAD_DATA");
    if (data && std::filesystem::exists(std::string(data) + "/" + name)) {
      path_ = std::string(data) + "/" + name;
      return;
    }
    const std::string packed = FOLDGRAD_SOURCE_DIR "/../shared/data/" + archive;
    if (!std::filesystem::exists(packed)) return;
    const std::string command = "tar -C '" + unpacked_.path() + "' -xJf '" + packed + "'";
    if (std::system(command.c_str()) == 0) path_ = unpacked_ / name;
  }

  bool found() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& file) const { return path_ + "/" + file; }

 private:
  TemporaryDirectory unpacked_;
  std::string path_;
};

#define FOLDGRAD_SKIP_WITHOUT(data, name) \
  if (!(data).found()) GTEST_SKIP() << name " is neither in $FOLDGRAD_DATA nor packed in ../shared/data"

}  // namespace foldgrad::testing
