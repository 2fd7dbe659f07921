#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/train/data/http_server.h"
#include "tests/train/program.h"
#include "train/data/download.h"
#include "train/data/images/cifar.h"
#include "train/data/images/shapes.h"
#include "train/data/text/sentence_piece.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

class DataCommand : public ::testing::Test {
 protected:
  DataCommand() {
    for (const char* name : {"train", "val"}) {
      write_bytes(files_ / (name + std::string(".de")), "Ein Haus\r\ndas Haus dort\n\n");
      write_bytes(files_ / (name + std::string(".en")), "a House\nthe house\n\n");
    }
  }
  ProgramResult data(const std::string& arguments) { return run_program("data " + arguments); }
  std::string here() const { return files_.path(); }

  TemporaryDirectory files_;
};

TEST_F(DataCommand, InfoCounts) {
  const ProgramResult text = data("info " + here()), json = data("info --json " + here());
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("train                        3   de           5         4        3      1\n"),
            std::string::npos)
      << text.out;
  const auto all = nlohmann::json::parse(json.out);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["name"], "val");
  EXPECT_EQ(all[0]["target"], (nlohmann::json{{"words", 4}, {"distinct", 4}, {"longest", 2}, {"empty", 1}}));
}

TEST_F(DataCommand, PreparesAndVerifies) {
  const std::string to = files_ / "made";
  const ProgramResult made = data("prepare " + here() + " " + to + " --lowercase --rename train=first");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, to + ": first, valid\n");
  EXPECT_EQ(read_bytes(to + "/first.de"), "ein haus\ndas haus dort\n\n");
  EXPECT_EQ(read_bytes(to + "/valid.en"), "a house\nthe house\n\n");
  EXPECT_EQ(data("verify " + to).out, to + ": 2 pairs of files are sound\n");
  EXPECT_EQ(data("prepare " + here() + " " + files_ / "one" + " --only train").out, files_ / "one" + ": train\n");
  EXPECT_EQ(data("prepare " + here() + " " + files_ / "two" + " --only test").exit_code, 3);
  write_bytes(to + "/valid.en", "a house\nthe horse\n\n");
  const ProgramResult changed = data("verify " + to);
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_EQ(changed.err, "error: " + to + "/valid.en: must have SHA-256 " + sha256("a house\nthe house\n\n") +
                             ", got " + sha256("a house\nthe horse\n\n") + "\n");
}

TEST_F(DataCommand, VerifyNamesAllThatIsWrong) {
  write_bytes(files_ / "train.en", "a\n");
  write_bytes(files_ / "val.de", "a\n\xff\n");
  write_bytes(files_ / "test.en", "a\n");
  write_bytes(files_ / "digests", "short  train.de\n" + std::string(64, 'a') + "  gone\n");
  const ProgramResult result = data("verify " + here() + " --digests " + files_ / "digests");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err, "error: " + files_ / "train.en" + ": must have as many lines as " + files_ / "train.de" +
                            ", which has 3, got 1\nerror: " + files_ / "val.de" +
                            ": line 2 must be UTF-8, got byte 0xff as its byte 1\nerror: " + files_ / "test.en" +
                            ": there is no test.de beside it\nerror: " + files_ / "digests" +
                            ": must have lines \"SHA-256  NAME\", got \"short  train.de\"\nerror: " + files_ / "gone" +
                            ": cannot be opened: No such file or directory\n");
}

TEST_F(DataCommand, LearnsPieces) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const std::string to = files_ / "made";
  ASSERT_EQ(data("prepare " + here() + " " + to + " --sentencepiece 22").exit_code, 0);
  EXPECT_EQ(SentencePiece::read(to + "/sentencepiece.model").size(), 22);
  EXPECT_EQ(data("verify " + to).exit_code, 0);
}

TEST_F(DataCommand, BadDirectoriesAndOptions) {
  const ProgramResult absent = data("info " + files_ / "absent");
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_EQ(absent.err, "error: " + files_ / "absent" + ": cannot be read: No such file or directory\n");
  const ProgramResult other = data("info --target fr " + here());
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_EQ(other.err, "error: " + here() + ": has no files NAME.de and NAME.fr\n");
  EXPECT_EQ(data("prepare " + here() + " " + files_ / "train.de" + "/x").exit_code, 3);
  EXPECT_EQ(data("prepare " + here() + " " + files_ / "made" + " --rename a").exit_code, 2);
  EXPECT_EQ(data("fetch multi31k").err,
            "error: there is no data set \"multi31k\" to fetch; known: multi30k, cifar10, cifar100. Files from "
            "elsewhere: foldgrad data prepare\n");
  EXPECT_EQ(data("fetch x --url http://localhost/").exit_code, 2);
  EXPECT_EQ(data("").exit_code, 2);
  const ProgramResult foreign = data("fetch multi30k --data-dir " + here() + " --from-file " + files_ / "train.de");
  EXPECT_EQ(foreign.exit_code, 3);
  EXPECT_EQ(foreign.err, "error: " + files_ / "train.de" + ": has SHA-256 " + sha256("Ein Haus\r\ndas Haus dort\n\n") +
                             ", which no archive of multi30k has\n");
}

TEST_F(DataCommand, DigestsAreLookedAtBeforeAnythingIsFetched) {
  const std::string to = " --data-dir " + files_ / "root" + " --url http://127.0.0.1:1/a --sha256 ";
  for (const std::string& digest : {std::string("xyz"), std::string(63, 'a'), std::string(64, 'g')}) {
    const ProgramResult r = data("fetch mine" + to + digest);
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_EQ(r.err, "error: --sha256 must have 64 hexadecimal digits, got \"" + digest + "\"\n");
  }
  std::string large = sha256("Ein Haus\r\ndas Haus dort\n\n");
  for (char& c : large) c = char(std::toupper(c));
  const ProgramResult taken =
      data("fetch mine --sha256 " + large + " --data-dir " + files_ / "root" + " --from-file " + files_ / "train.de");
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
}

TEST_F(DataCommand, AFetchThatFailsLeavesNoDirectoryThatLooksLikeTheData) {
  if (!download_available()) GTEST_SKIP() << "libcurl is absent";
  setenv("http_proxy", "http://localhost:1", 1);
  setenv("https_proxy", "http://localhost:1", 1);
  const ProgramResult r = data("fetch multi30k --data-dir " + files_ / "root");
  const ProgramResult file =
      data("fetch mine --data-dir " + files_ / "root" + " --url http://127.0.0.1:1/a --sha256 " + std::string(64, 'a'));
  unsetenv("http_proxy");
  unsetenv("https_proxy");
  EXPECT_EQ(file.exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(files_ / "root/mine"));
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_NE(r.err.find("could not be fetched"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(files_ / "root/multi30k"));
}

TEST_F(DataCommand, FetchesAFileByItsDigest) {
  const std::string digest = sha256("Ein Haus\r\ndas Haus dort\n\n"), at = " --data-dir " + files_ / "root";
  const ProgramResult taken = data("fetch mine --sha256 " + digest + at + " --from-file " + files_ / "train.de");
  ASSERT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(taken.out, files_ / "root/mine/train.de\n");
  if (!download_available() || !python_available()) GTEST_SKIP() << "libcurl or python3 is absent";
  const HttpServer server(here());
  const ProgramResult fetched = data("fetch other --sha256 " + digest + at + " --url " + server.url("plain/train.de"));
  ASSERT_EQ(fetched.exit_code, 0) << fetched.err;
  EXPECT_EQ(read_bytes(files_ / "root/other/train.de"), "Ein Haus\r\ndas Haus dort\n\n");
}

TEST_F(DataCommand, WritesTheTaskShapesAsCifar10) {
  const std::string to = files_ / "made";
  const ProgramResult made = data("synth shapes " + to + " --count 12 --test-count 3 --seed 4");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, to + ": 12 images to train on, 3 to test\n");
  for (const auto& [part, count] : {std::pair(ImagePart::train, 12), std::pair(ImagePart::test, 3)}) {
    const ImageSet got = read_cifar(to, cifar10_layout(), part), want = shapes::sample(part, count, 4);
    EXPECT_EQ(got.pixels.values<std::uint8_t>(), want.pixels.values<std::uint8_t>());
    EXPECT_EQ(got.labels.values<std::int64_t>(), want.labels.values<std::int64_t>());
    EXPECT_EQ(got.classes, want.classes);
  }
  EXPECT_EQ(data("synth digits " + to).err, "error: there is no task \"digits\" to draw; known: shapes\n");
  EXPECT_EQ(data("synth shapes " + files_ / "train.de" + "/x --count 5 --test-count 1").exit_code, 3);
}

TEST_F(DataCommand, DrawnImagesReplaceNoFile) {
  const std::string to = files_ / "made";
  std::filesystem::create_directory(to);
  for (const char* file : {"test_batch.bin", "batches.meta.txt"}) {
    write_bytes(to + "/" + file, "mine");
    const ProgramResult again = data("synth shapes " + to + " --count 12 --test-count 3");
    EXPECT_EQ(again.exit_code, 3);
    EXPECT_EQ(again.err, "error: " + to + "/" + file + ": is there already; name another directory, or remove it\n");
    EXPECT_EQ(read_bytes(to + "/" + file), "mine");
    EXPECT_FALSE(std::filesystem::exists(to + "/data_batch_1.bin"));
    std::filesystem::remove(to + "/" + file);
  }
}

TEST_F(DataCommand, CountsOfDrawnImagesAreNamedByTheirOptions) {
  for (const char* option : {"--count 4", "--count 10000001", "--test-count 0", "--test-count 10000001"}) {
    const ProgramResult r = data(std::string("synth shapes ") + files_ / "made" + " " + option);
    EXPECT_EQ(r.exit_code, 2) << option;
    EXPECT_EQ(r.err.find("error: " + std::string(option).substr(0, std::string(option).find(' ')) + ": "), 0u) << r.err;
    EXPECT_FALSE(std::filesystem::exists(files_ / "made"));
  }
}

// The published archive is too large for a test; train/data/fetch_test.cpp unpacks a small one.
TEST_F(DataCommand, ImagesThatAreNotThePublishedOnesAreNotReplaced) {
  const std::string mine = files_ / "root/cifar-100-binary/train.bin";
  std::filesystem::create_directories(files_ / "root/cifar-100-binary");
  write_bytes(mine, "mine");
  const ProgramResult r = data("fetch cifar100 --data-dir " + files_ / "root");
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_EQ(r.err, "error: " + mine +
                       ": is there already, and is not that of cifar100: remove it, or name another --data-dir\n");
  const ProgramResult foreign = data("fetch cifar10 --data-dir " + files_ / "root" + " --from-file " + mine);
  EXPECT_EQ(foreign.exit_code, 3);
  EXPECT_EQ(foreign.err, "error: " + mine + ": has SHA-256 " + sha256("mine") + ", which no archive of cifar10 has\n");
  EXPECT_FALSE(std::filesystem::exists(files_ / "root/cifar-10-batches-bin"));
}

}  // namespace
}  // namespace foldgrad::testing
