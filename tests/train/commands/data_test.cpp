#include <filesystem>

#include "tests/train/program.h"
#include "train/system/digest.h"
#include "train/tasks/classification/images/cifar.h"
#include "train/tasks/classification/images/shapes.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad::testing {
namespace {

class DataCommand : public ProgramFiles {
 protected:
  DataCommand() {
    for (const char* name : {"train", "val"}) {
      write(name + std::string(".de"), kText);
      write(name + std::string(".en"), "a House\nthe house\n\n");
    }
  }
  static constexpr const char* kText = "Ein Haus\r\ndas Haus dort\n\n";
};

TEST_F(DataCommand, InfoCounts) {
  EXPECT_TRUE(
      contains(output("data info @"), "train                        3   de           5         4        3      1\n"));
  const nlohmann::json all = parsed("data info --json @");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["name"], "val");
  EXPECT_EQ(all[0]["target"], (nlohmann::json{{"words", 4}, {"distinct", 4}, {"longest", 2}, {"empty", 1}}));
}

TEST_F(DataCommand, InfoCountsImagesInFolders) {
  for (const char* name : {"cat/a.png", "cat/b.jpg", "eel/c.png", "eel/c.webp"})
    write(std::string("images/train/") + name, "not decoded");
  write("images/test/eel/d.png", "not decoded");
  EXPECT_EQ(output("data info @images"),
            "part      images  classes  fewest    most\ntrain          3        2       1       2\n"
            "test           1        1       1       1\ntrain: files left out: 1 not PNG or JPEG (eel/c.webp)\n");
  EXPECT_EQ(parsed("data info @images --json")[0]["classes"], (nlohmann::json{{"cat", 2}, {"eel", 1}}));
}

TEST_F(DataCommand, InfoCountsTinyImageNet) {
  for (const char* name : {"train/n01/images/a.JPEG", "train/n01/images/b.JPEG", "val/images/c.JPEG"})
    write(std::string("tiny/") + name, "not decoded");
  write("tiny/val/val_annotations.txt", "c.JPEG\tn01\t0\t0\t1\t1\n");
  EXPECT_EQ(output("data info @tiny"),
            "part      images  classes  fewest    most\ntrain          2        1       2       2\n"
            "val            1        1       1       1\n");
}

TEST_F(DataCommand, PreparesAndVerifies) {
  EXPECT_EQ(output("data prepare @ @made --lowercase --rename train=first"), filled("@made: first, valid\n"));
  EXPECT_EQ(bytes("made/first.de"), "ein haus\ndas haus dort\n\n");
  EXPECT_EQ(bytes("made/valid.en"), "a house\nthe house\n\n");
  EXPECT_EQ(output("data verify @made"), filled("@made: 2 pairs of files are valid\n"));
  EXPECT_EQ(output("data prepare @ @one --only train"), filled("@one: train\n"));
  EXPECT_EQ(run("data prepare @ @two --only test").exit_code, 3);
  write_bytes(files_ / "made/valid.en", "a house\nthe horse\n\n");
  expect_error("data verify @made", 3,
               "@made/valid.en: must have SHA-256 " + sha256("a house\nthe house\n\n") + ", got " +
                   sha256("a house\nthe horse\n\n"));
}

TEST_F(DataCommand, PreparesNoTextOverAnother) {
  expect_error("data prepare @ @made --rename train=valid", 3, "@: train and val would both be written to valid");
  expect_error("data prepare @ @made --rename nope=x", 3, "@: --rename: there is no pair named nope");
  for (const char* name : {"", "../x"})
    expect_error(std::string("data prepare @ @made --rename train=") + name, 2,
                 std::string("--rename must be OLD=NEW, got train=") + name);
  EXPECT_FALSE(exists("made"));
  expect_error("data prepare @ @ --rename train=val --rename val=train", 3,
               "@: train would overwrite val; choose another output directory");
  EXPECT_EQ(bytes("train.de"), kText);
}

TEST_F(DataCommand, VerifyNamesAllThatIsWrong) {
  write_bytes(files_ / "train.en", "a\n");
  write_bytes(files_ / "val.de", "a\n\xff\n");
  write_bytes(files_ / "test.en", "a\n");
  write_bytes(files_ / "digests", "short  train.de\n" + std::string(64, 'a') + "  gone\nno digest\n");
  expect_error("data verify " + files_.path() + " --digests @digests", 3,
               "@train.en: must have as many lines as @train.de, which has 3, got 1\n"
               "error: @val.de: line 2 must be UTF-8, got byte 0xff at byte 1 of the line\n"
               "error: @test.en: there is no test.de next to it\n"
               "error: @digests: line 1 must be \"SHA-256  NAME\", got \"short  train.de\"\n"
               "error: @gone: cannot be opened: No such file or directory");
}

TEST_F(DataCommand, LearnsPieces) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  output("data prepare @ @made --sentencepiece 22");
  EXPECT_EQ(SentencePiece::read(files_ / "made/sentencepiece.model").size(), 22);
  EXPECT_EQ(run("data verify @made").exit_code, 0);
}

TEST_F(DataCommand, BadDirectoriesAndOptions) {
  expect_error("data info @absent", 3, "@absent: cannot be read: No such file or directory");
  expect_error("data info --target fr " + files_.path(), 3,
               files_.path() + ": has no pair of files NAME.de and NAME.fr");
  EXPECT_EQ(run("data prepare @ @train.de/x").exit_code, 3);
  EXPECT_EQ(run("data prepare @ @made --rename a").exit_code, 2);
  expect_error("data fetch multi31k", 2,
               "there is no data set \"multi31k\" to fetch; the known ones are multi30k, cifar10, cifar100. For other "
               "files, use foldgrad data prepare");
  EXPECT_EQ(run("data").exit_code, 2);
  EXPECT_TRUE(begins(run("data fetch").err, "error: NAME: is missing; known data sets: multi30k, cifar10, cifar100\n"));
  expect_error("data fetch multi30k --data-dir @ --from-file @train.de", 3,
               "@train.de: has SHA-256 " + sha256(kText) + ", which is not the digest of an archive of multi30k");
}

TEST_F(DataCommand, AFetchThatFailsLeavesNoDirectoryThatLooksLikeTheData) {
  setenv("http_proxy", "http://localhost:1", 1);
  setenv("https_proxy", "http://localhost:1", 1);
  expect_failure(run("data fetch multi30k --data-dir @root"), 3, "could not be fetched");
  unsetenv("http_proxy");
  unsetenv("https_proxy");
  EXPECT_FALSE(exists("root/multi30k"));
}

TEST_F(DataCommand, WritesTheTaskShapesAsCifar10) {
  EXPECT_EQ(output("data synth shapes @new/made --count 12 --test-count 3 --seed 4"),
            filled("@new/made: 12 training images, 3 test images\n"));
  for (const auto& [part, count] : {std::pair(ImagePart::train, 12), std::pair(ImagePart::test, 3)}) {
    const ImageSet got = read_cifar(files_ / "new/made", cifar10_layout(), part), want = shapes::sample(part, count, 4);
    EXPECT_EQ(got.pixels.values<std::uint8_t>(), want.pixels.values<std::uint8_t>());
    EXPECT_EQ(got.labels.values<std::int64_t>(), want.labels.values<std::int64_t>());
    EXPECT_EQ(got.classes, want.classes);
  }
  EXPECT_EQ(bytes("new/made/data_batch_1.bin").size(), 2u * 3073);
  EXPECT_EQ(bytes("new/made/data_batch_5.bin").size(), 3u * 3073);
  EXPECT_EQ(output("data info @new/made"),
            "part      images  classes  fewest    most\ntrain         12       10       1       2\n"
            "test           3       10       0       1\n");
  EXPECT_EQ(parsed("data info @new/made --json")[1]["classes"].size(), 10u);
  expect_error("data synth digits @made", 2, "cannot draw task \"digits\"; only shapes is supported");
  EXPECT_EQ(run("data synth shapes @train.de/x --count 5 --test-count 1").exit_code, 3);
  EXPECT_EQ(run("data synth shapes @" + std::string(300, 'a') + " --count 5 --test-count 1").exit_code, 3);
}

TEST_F(DataCommand, DrawnImagesReplaceNoFile) {
  for (const std::string file : {"made/test_batch.bin", "made/batches.meta.txt"}) {
    write(file, "mine");
    expect_error("data synth shapes @made --count 12 --test-count 3", 3,
                 "@" + file + ": already exists; choose another directory, or remove it");
    EXPECT_EQ(bytes(file), "mine");
    EXPECT_FALSE(exists("made/data_batch_1.bin"));
    std::filesystem::remove(files_ / file);
  }
}

TEST_F(DataCommand, CountsOfDrawnImagesAreNamedByTheirOptions) {
  for (const std::string option : {"--count 4", "--count 10000001", "--test-count 0", "--test-count 10000001"}) {
    expect_failure(run("data synth shapes @made " + option), 2, "error: " + option.substr(0, option.find(' ')) + ": ");
    EXPECT_FALSE(exists("made"));
  }
}

// The published archive is too large for a test; tests/train/data/fetch_test.cpp unpacks a small archive.
TEST_F(DataCommand, ImagesThatAreNotThePublishedOnesAreNotReplaced) {
  write("root/cifar-100-binary/train.bin", "mine");
  expect_error("data fetch cifar100 --data-dir @root", 3,
               "@root/cifar-100-binary/train.bin: already exists but does not belong to cifar100: remove it, or choose "
               "another --data-dir");
  expect_error("data fetch cifar10 --data-dir @root --from-file @root/cifar-100-binary/train.bin", 3,
               "@root/cifar-100-binary/train.bin: has SHA-256 " + sha256("mine") +
                   ", which is not the digest of an archive of cifar10");
  EXPECT_FALSE(exists("root/cifar-10-batches-bin"));
}

}  // namespace
}  // namespace foldgrad::testing
