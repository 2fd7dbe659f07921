// What `foldgrad train` says of text that it cannot take, and its exit code 3; nothing is left behind.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

class TrainDataErrors : public ::testing::Test {
 protected:
  TrainDataErrors() {
    for (const char* name : {"train.de", "train.en", "valid.de", "valid.en"}) write_bytes(files_ / name, "a b\nc\n");
    write_bytes(files_ / "codes", "#version: 0.2\na b\n");
    write_bytes(files_ / "dict", "a 3\nb 2\n");
    write_bytes(files_ / "config.toml", "[train]\nsteps = 1\n");
  }
  void expect_error(const std::string& message, const std::string& settings = "", int exit_code = 3) {
    const ProgramResult r = run_program("train " + files_ / "config.toml" + " --data-dir " + files_.path() + " --out " +
                                        files_ / "run" + " " + settings);
    EXPECT_EQ(r.exit_code, exit_code);
    EXPECT_EQ(r.err, "error: " + message + "\n");
    EXPECT_FALSE(std::filesystem::exists(files_ / "run"));
  }

  TemporaryDirectory files_;
  const std::string bpe_ = "--set data.tokenizer=bpe --set data.bpe_codes=codes",
                    dictionaries_ = " --set data.source_dictionary=dict --set data.target_dictionary=dict";
};

TEST_F(TrainDataErrors, MissingUnequalAndEmptyFiles) {
  expect_error(files_ / "test.de" + ": cannot be opened: No such file or directory", "--set data.valid=test");
  write_bytes(files_ / "valid.en", "a b\n");
  expect_error(files_ / "valid.en" + ": must have as many lines as " + files_ / "valid.de" + ", which has 2, got 1");
  write_bytes(files_ / "train.de", "");
  write_bytes(files_ / "train.en", "");
  expect_error(files_ / "train.de" + ": must have at least one line, got 0");
  expect_error(files_ / "absent" +
                   ": there is no such directory; data.directory = \"absent\" lies below --data-dir, "
                   "$FOLDGRAD_DATA or ~/.cache/foldgrad",
               "--set data.directory=absent");
}

TEST_F(TrainDataErrors, TextThatIsNotUtf8) {
  write_bytes(files_ / "train.en", "a\nb\xc3(\n");
  expect_error(files_ / "train.en" + ": line 2 must be UTF-8, got byte 0xc3 as its byte 2");
}

TEST_F(TrainDataErrors, CodesAndDictionaries) {
  write_bytes(files_ / "dict", "a 3\nb\n");
  expect_error(files_ / "dict" + ": line 2 must be a word, a space and its count, got \"b\"", bpe_ + dictionaries_);
  write_bytes(files_ / "dict", "</s> 3\n");
  expect_error(files_ / "dict" + ": line 1: the word \"</s>\" is there already", bpe_ + dictionaries_);
  write_bytes(files_ / "codes", "#version: 0.2\nabc\n");
  expect_error(files_ / "codes" + ": line 2 must be two pieces with a space between, got \"abc\"", bpe_);
  expect_error("data.bpe_codes must name a file with data.tokenizer = \"bpe\"", "--set data.tokenizer=bpe", 2);
}

}  // namespace
}  // namespace foldgrad::testing
