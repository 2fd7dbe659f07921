// Files of JSON.
#include <gtest/gtest.h>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"
#include "train/system/json_file.h"

namespace foldgrad::testing {
namespace {

class JsonFile : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    write_bytes(path_, text);
    const std::string error = message<FileError>([&] { read_json(path_); });
    return error.substr(0, path_.size() + 2) == path_ + ": " ? error.substr(path_.size() + 2) : error;
  }
  static std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

  TemporaryDirectory files_;
  const std::string path_ = files_ / "a.json";
};

TEST_F(JsonFile, NamesTheFileAndWhatIsWrong) {
  EXPECT_EQ(error_of("{\"a\": [1, 2.5e308"), "must hold numbers of at most 1.8e308");
  EXPECT_EQ(error_of("{\"a\": -1e400}"), "must hold numbers of at most 1.8e308");
  EXPECT_EQ(error_of("{\"a\": "), "is not JSON at byte 7");
  EXPECT_EQ(error_of(""), "is not JSON at byte 1");
  EXPECT_EQ(error_of("\"\xff\""), "is not JSON at byte 2");
  EXPECT_EQ(error_of("\xef\xbb\xbf{}"), "must not begin with a byte order mark");
  EXPECT_EQ(message<FileError>([&] { read_json(files_ / "absent"); }),
            files_ / "absent" + ": cannot be opened: No such file or directory");
}

TEST_F(JsonFile, IsNotNestedDeep) {
  write_bytes(path_, nested(65));
  EXPECT_EQ(read_json(path_).dump(), nested(65));
  EXPECT_EQ(error_of(nested(66)), "must not be nested more than 64 deep");
  EXPECT_EQ(error_of(std::string(5'000'000, '[')), "must not be nested more than 64 deep");
}

TEST(JsonShown, CutsTextAndNamesWhatIsLarge) {
  EXPECT_EQ(shown(1.5), "1.5");
  EXPECT_EQ(shown(nullptr), "null");
  EXPECT_EQ(shown("a\x1b"), "\"a\\x1b\"");
  EXPECT_EQ(shown(std::string(100, 'a')), '"' + std::string(80, 'a') + "\"...");
  EXPECT_EQ(shown(nlohmann::json::array({1})), "an array");
  EXPECT_EQ(shown(nlohmann::json::object()), "an object");
}

}  // namespace
}  // namespace foldgrad::testing
