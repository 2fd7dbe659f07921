// Files of other programs where safetensors are expected.
#include <gtest/gtest.h>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {
namespace {

TEST(SafetensorsRefused, OtherFormatsAreRecognised) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model", converts = "which examples/fairseq_import.py can convert";
  const auto ending = [&](const std::string& begin) {
    write_bytes(path, begin + std::string(64, '\x7f'));
    const std::string text = message<FileError>([&] { read_safetensors(path); });
    return text.substr(std::min(text.find(';'), text.size()));
  };
  EXPECT_EQ(ending("PK\x03\x04"), "; it looks like a zip archive, such as a .pt of PyTorch, " + converts);
  for (const char* protocol : {"\x80\x02", "\x80\x03", "\x80\x04"})
    EXPECT_EQ(ending(protocol), "; it looks like a pickle of Python, such as an old .pt, " + converts);
  EXPECT_EQ(ending("\x1f\x8b"), "; it looks like a gzip archive");
  EXPECT_EQ(ending("{\"a\":"), "; it looks like JSON");
  EXPECT_EQ(ending("["), "; it looks like JSON");
  EXPECT_EQ(ending("PK\x03\x05"), "");
}

}  // namespace
}  // namespace foldgrad::testing
