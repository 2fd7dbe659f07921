#include "train/tasks/translation/data.h"

#include <ctime>
#include <filesystem>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "train/data/data_sets.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

class ExperimentDataTest : public FileTest {
 protected:
  ExperimentDataTest() {
    for (const char* name : {"train", "valid", "test"}) {
      write(name + std::string(".de"), "Ein Haus\ndas Haus\nlow lower\n");
      write(name + std::string(".en"), "a House\nthe big old House\nlow\n");
    }
    write("codes", "#version: 0.2\nl o\nw e\nlo w</w>\nwe r</w>\n");
    write("dict.de.txt", "low 5\nHaus 3\nmadeupword0000 0\n");
    write("dict.en.txt", "House 4\nlow 1\na 3\n");
  }
  ExperimentConfig config(const std::string& data) { return parse_config("[data]\n" + data, "a.toml"); }
  ExperimentData read(const std::string& data) { return read_data(config(data), files_.path()); }
  template <class Error>
  std::string refusal(const std::string& data) {
    return error_of<Error>([&] { read(data); });
  }
};

TEST_F(ExperimentDataTest, WordsOfTheTrainingFiles) {
  const ExperimentData data = read("");
  EXPECT_EQ(data.vocabulary.kind(), "words");
  // Both languages share one dictionary. "Haus", "House" and "low" occur twice, so they come first, sorted by bytes.
  // After 4 special symbols, "low" has the id 6.
  EXPECT_EQ(data.train.pairs.source[0], data.vocabulary.encode_target("Ein Haus"));
  EXPECT_EQ(data.train.pairs.target[2], (Ids{6, kEos}));
  EXPECT_EQ(data.valid.text.target[1], "the big old House");
  EXPECT_EQ(data.digests.size(), 4u);
  EXPECT_EQ(data.digests.at("train.de"), sha256("Ein Haus\ndas Haus\nlow lower\n"));
  const ExperimentConfig separate = parse_config("[model]\nshare_embeddings = 'decoder'\n", "a.toml");
  const ExperimentData two = read_data(separate, files_.path());
  EXPECT_EQ(two.vocabulary.encode_source("House").front(), kUnk);
  EXPECT_NE(two.vocabulary.encode_target("House").front(), kUnk);
}

TEST_F(ExperimentDataTest, NamesMayBeAbsolute) {
  write("elsewhere/valid.de", "ja\n");
  write("elsewhere/valid.en", "yes\n");
  const ExperimentData data = read(fmt::format("valid = '{}'\n", files_ / "elsewhere/valid"));
  EXPECT_EQ(data.valid.text.target, std::vector<std::string>{"yes"});
}

TEST_F(ExperimentDataTest, SmallLettersInTextAndIds) {
  const ExperimentData data = read("lowercase = true\n");
  EXPECT_EQ(data.valid.text.source[0], "ein haus");
  EXPECT_EQ(data.vocabulary.encode_source("HAUS"), data.vocabulary.encode_source("haus"));
  EXPECT_NE(data.vocabulary.encode_source("HAUS").front(), kUnk);
}

TEST_F(ExperimentDataTest, BpeWithPublishedDictionariesJoined) {
  const std::string files = "source_dictionary = 'dict.de.txt'\ntarget_dictionary = 'dict.en.txt'\n";
  const ExperimentData data = read("tokenizer = 'bpe'\nbpe_codes = 'codes'\n" + files);
  // In the joined dictionary, "low" has the count 6, "House" 4, "Haus" 3 and "a" 3. With 4 special symbols it has 8
  // entries; the made-up word is dropped.
  EXPECT_EQ(data.vocabulary.source_size(), 8);
  EXPECT_EQ(data.vocabulary.encode_source("low a"), (Ids{4, 7, kEos}));
  EXPECT_EQ(data.vocabulary.encode_target("low lower"), (Ids{4, kUnk, kUnk, kEos}));
  EXPECT_EQ(data.digests.count("codes"), 1u);
  EXPECT_EQ(data.digests.count("dict.en.txt"), 1u);
  const ExperimentData same = read("source_dictionary = 'dict.de.txt'\ntarget_dictionary = 'dict.de.txt'\n");
  EXPECT_EQ(same.vocabulary.encode_source("low Haus"), (Ids{4, 5, kEos}));
}

TEST_F(ExperimentDataTest, SentencePieceOfBothSides) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const std::string keys = "tokenizer = 'sentencepiece'\nvocabulary = 24\n";
  const ExperimentData data = read(keys), again = read(keys);
  EXPECT_EQ(data.vocabulary.source_size(), 24);
  EXPECT_EQ(data.vocabulary.decode_target(data.train.pairs.target[1]), "the big old House");
  EXPECT_EQ(data.train.pairs.source, again.train.pairs.source);
}

TEST_F(ExperimentDataTest, TextWithoutWordsIsNoTextForPieces) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  for (const char* name : {"train.de", "train.en"}) write(name, " \n\u200b\n");
  EXPECT_EQ(refusal<FileError>("tokenizer = 'sentencepiece'\nvocabulary = 20\n"),
            "@train: data.tokenizer = \"sentencepiece\" with data.vocabulary = 20: sentence_piece: at least one line "
            "of at most 4192 bytes must contain a word, but none of the 4 lines does");
}

TEST_F(ExperimentDataTest, TheVocabularyOfARunStays) {
  ExperimentData first = read("");
  const std::vector<Ids> before = first.train.pairs.source;
  write("train.de", "Haus Haus\nEin\ndas das das low\n");
  const ExperimentData second = read_data(config(""), files_.path(), std::move(first.vocabulary));
  EXPECT_EQ(second.train.pairs.source[0], (Ids{before[0][1], before[0][1], kEos}));
}

TEST_F(ExperimentDataTest, LeavesOutWhatIsTooLongOrTooUnequal) {
  EXPECT_EQ(read("max_length = 3\n").train.text.source, (std::vector<std::string>{"Ein Haus", "low lower"}));
  EXPECT_EQ(read("max_length = 3\n").valid.pairs.source.size(), 3u);
  EXPECT_EQ(read("max_ratio = 1.5\n").train.text.source, (std::vector<std::string>{"Ein Haus", "low lower"}));
  EXPECT_EQ(read("max_ratio = 1.4\n").train.text.source, (std::vector<std::string>{"Ein Haus"}));
  EXPECT_EQ(read("max_ratio = 1.4\n").train.pairs.target.size(), 1u);
  EXPECT_EQ(refusal<FileError>("max_length = 1\n"),
            "@train: no pair satisfies data.max_length = 1 and data.max_ratio = 0");
}

TEST_F(ExperimentDataTest, SentencesThatFitIntoNoBatchOrModelAreNamedByTheirLine) {
  // max_ratio drops line 2 of train.en, the longest sentence. It never drops lines of the validation text.
  EXPECT_EQ(
      refusal<FileError>("max_ratio = 1.5\n[train]\nmax_tokens = 4\n"),
      "@valid.en: line 2 has 5 tokens, including the end token, but train.max_tokens = 4; raise the limit, or leave "
      "out the pair");
  EXPECT_EQ(
      refusal<FileError>("valid = 'train'\nmax_ratio = 1.5\n[train]\nmax_tokens = 4\n"),
      "@train.en: line 2 has 5 tokens, including the end token, but train.max_tokens = 4; raise the limit, or leave "
      "out the pair");  // max_ratio drops nothing here, since this is also the validation text
  EXPECT_EQ(
      refusal<FileError>("max_ratio = 1.5\n[model]\nmax_positions = 2\n"),
      "@train.de: line 1 has 3 tokens, including the end token, but model.max_positions = 2; raise the limit, or leave "
      "out the pair with data.max_length");
  EXPECT_EQ(read("[train]\nmax_tokens = 5\n").train.pairs.source.size(), 3u);
}

TEST_F(ExperimentDataTest, TakesTheFirstPairs) {
  const ExperimentData data = read("train_pairs = 1\nvalid_pairs = 2\n");
  EXPECT_EQ(data.train.pairs.source.size(), 1u);
  EXPECT_EQ(data.valid.pairs.source.size(), 2u);
  EXPECT_EQ(read_text(config("valid_pairs = 2\n").data.as<DataConfig>(), files_.path(), "test").source.size(), 3u);
}

TEST_F(ExperimentDataTest, NumbersNeedNoFiles) {
  const ExperimentData data =
      read_data(config("task = 'numbers'\ntrain_pairs = 20\nvalid_pairs = 5\n"), files_ / "absent");
  EXPECT_EQ(data.train.pairs.source.size(), 20u);
  EXPECT_EQ(data.valid.pairs.source.size(), 5u);
  EXPECT_EQ(data.digests.size(), 0u);
  EXPECT_EQ(data.vocabulary.decode_target(data.valid.pairs.target[3]), data.valid.text.target[3]);
  const DataConfig numbers = config("task = 'numbers'\nvalid_pairs = 5\n").data.as<DataConfig>();
  EXPECT_EQ(read_text(numbers, "", "test").source.size(), 5u);
  EXPECT_EQ(message<std::invalid_argument>([&] { read_text(numbers, "", "tset"); }),
            "the split must be train, valid or test with data.task = \"numbers\", got tset");
}

TEST_F(ExperimentDataTest, KeysThatDoNotGoTogether) {
  EXPECT_EQ(refusal<ConfigError>("tokenizer = 'bpe'\n"), "data.bpe_codes must name a file if data.tokenizer = \"bpe\"");
  EXPECT_EQ(refusal<ConfigError>("bpe_codes = 'codes'\n"),
            "data.bpe_codes must not name a file if data.tokenizer = \"words\"");
  EXPECT_EQ(refusal<ConfigError>("source_dictionary = 'dict.de.txt'\n"),
            "data.source_dictionary and target_dictionary must both be given, or neither");
  EXPECT_EQ(refusal<ConfigError>("tokenizer = 'sentencepiece'\nsource_dictionary = 'a'\ntarget_dictionary = 'a'\n"),
            "data.source_dictionary and target_dictionary must be empty if data.tokenizer = \"sentencepiece\"");
  EXPECT_EQ(refusal<ConfigError>("task = 'numbers'\nlowercase = true\n"),
            "data.task = \"numbers\" has its own vocabulary: leave out tokenizer, dictionaries and lowercase");
}

// Computing the digest of a large sparse file would take hours. So the text must be read first: the reader rejects such
// a file at its first byte.
TEST_F(ExperimentDataTest, TextIsReadBeforeDigestsAreTaken) {
  write("valid.de", "z\xffwei\n");
  std::filesystem::remove(files_ / "valid.en");  // computing its digest first would give another error
  EXPECT_EQ(refusal<FileError>(""), "@valid.de: line 1 must be UTF-8, got byte 0xff at byte 2 of the line");
}

// If a checkpoint has the vocabulary, the vocabulary's files are needed only for their digests. A digest would take
// seconds for the 16 GiB here, and hours for a terabyte, so the size must be checked first.
TEST_F(ExperimentDataTest, AVocabularyOfHolesIsRefusedAtOnce) {
  write("holes", "");
  std::filesystem::resize_file(files_ / "holes", std::uintmax_t(1) << 34);
  for (const char* keys :
       {"tokenizer = 'bpe'\nbpe_codes = 'holes'\n", "source_dictionary = 'holes'\ntarget_dictionary = 'holes'\n",
        "tokenizer = 'sentencepiece'\nsentencepiece_model = 'holes'\n"}) {
    const std::clock_t begin = std::clock();
    EXPECT_EQ(error_of<FileError>([&] { read_data(config(keys), files_.path(), read("").vocabulary); }),
              "@holes: must have at most 268435456 bytes, got 17179869184")
        << keys;
    EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 1) << keys;
  }
}

TEST_F(ExperimentDataTest, FilesThatAreNotThere) {
  EXPECT_EQ(refusal<FileError>("train = 'text'\n"),
            files_.path() +
                ": has no text.de; data.directory = \"\" is below --data-dir, $FOLDGRAD_DATA or ~/.cache/foldgrad");
  EXPECT_EQ(refusal<FileError>("tokenizer = 'bpe'\nbpe_codes = 'merges'\n"),
            "@merges: cannot be opened: No such file or directory");
  const DataConfig d = config("directory = 'multi30k'\n").data.as<DataConfig>();
  const std::string directory = data_directory(d.directory, files_.path());
  EXPECT_EQ(directory, files_ / "multi30k");
  const auto refused = [&] { return error_of<FileError>([&] { read_text(d, directory, "train"); }); };
  const std::string lies =
      "; data.directory = \"multi30k\" is below --data-dir, $FOLDGRAD_DATA or ~/.cache/foldgrad; `foldgrad data fetch "
      "multi30k` creates this directory (docs/data.md)";
  EXPECT_EQ(refused(), "@multi30k: there is no such directory" + lies);
  std::filesystem::create_directory(directory);  // a failed fetch may have left this directory
  EXPECT_EQ(refused(), "@multi30k: has no train.de" + lies);
}

}  // namespace
}  // namespace foldgrad::testing
