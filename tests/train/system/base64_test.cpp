#include "train/system/base64.h"

#include <gtest/gtest.h>

namespace foldgrad::testing {
namespace {

// RFC 4648, section 10, and bytes that are no letters.
TEST(Base64, TestVectors) {
  const char* const want[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (std::size_t n = 0; n <= 6; ++n) EXPECT_EQ(base64(std::string("foobar").substr(0, n)), want[n]);
  EXPECT_EQ(base64(std::string("\xfb\xff\x00", 3)), "+/8A");
}

}  // namespace
}  // namespace foldgrad::testing
