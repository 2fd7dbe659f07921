#include "train/system/unicode.h"

#include <gtest/gtest.h>

namespace foldgrad {
namespace {

// As Python's str.split() has it.
TEST(SplitWords, WhiteSpaceIsThatOfUnicode) {
  using Words = std::vector<std::string>;
  for (const char* space : {" ", "\t", "\r", "\x1c", "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028",
                            "\u2029", "\u202f", "\u205f", "\u3000"})
    EXPECT_EQ(split_words("a" + std::string(space) + "b"), (Words{"a", "b"})) << space;
  for (const char* letter : {"\u200b", "\u2060", "\u180e", "\ufeff", "\x1b"})
    EXPECT_EQ(split_words("a" + std::string(letter) + "b").size(), 1u) << letter;
}

}  // namespace
}  // namespace foldgrad
