// Fuzz tests of configurations, BPE codes, dictionaries, SentencePiece models and descriptions of vocabularies.
#include <fmt/format.h>

#include "tests/train/fuzz/fuzz.h"
#include "train/tasks/language/vocabulary.h"
#include "train/tasks/translation/bpe.h"
#include "train/tasks/translation/dictionary.h"
#include "train/tasks/translation/numbers.h"
#include "train/tasks/translation/sentence_piece.h"
#include "train/tasks/translation/vocabulary.h"

namespace foldgrad::testing {
namespace {

using FuzzConfig = Fuzz;

// A configuration that is accepted must survive writing and reading again.
TEST_F(FuzzConfig, OfAFile) {
  const std::string path = files_ / "c.toml";
  std::vector<std::string> good{config_text(ExperimentConfig())};
  for (const char* name : {"multi30k", "iwslt14-pn_star", "shapes-vit", "docs-gpt"}) {
    const std::string config = fmt::format("{}/configs/{}.toml", FOLDGRAD_SOURCE_DIR, name);
    good.push_back(read_bytes(config));
    good.push_back(config_text(read_config(config)));
  }
  for (const char* base : {"iwslt14.toml", "shapes-cct.toml", "text.toml"})
    write(base, read_bytes(fmt::format("{}/configs/{}", FOLDGRAD_SOURCE_DIR, base)));
  fuzz(
      "c.toml", &Mutator::words, 2000, 20,
      [&] {
        const ExperimentConfig config = read_config(path);
        EXPECT_EQ(parse_config(config_text(config), files_.path()), config) << read_bytes(path);
      },
      good);
}

TEST_F(FuzzConfig, OfASetting) {
  fuzz("setting", &Mutator::words, 1000, 20,
       [&] {
         try {
           parse_config("", "", {bytes("setting")});
         } catch (const ConfigError& e) {  // these errors name the option, not a file
           ASSERT_TRUE(begins(e.what(), "--set "));
           throw ConfigError(files_.path());
         }
       },
       {"train.lr=0.5", "data.source=\"de\"", "norm.un.window=3", "model.pre_norm=true"});
}

const std::vector<std::string> kSentences{"das alte Haus dort", "", " ", "a\u0301 \U0001f600 haushaus", "x"};

using FuzzVocabulary = Fuzz;

TEST_F(FuzzVocabulary, Codes) {
  write("codes", "#version: 0.2\nh a\nha u\nhau s</w>\nd a\nda s</w>\na l\nt e</w>\nal te</w>\n");
  fuzz("codes", &Mutator::words, 1500, 20, [&] {
    Bpe bpe(files_ / "codes");
    // Undoing the merges must restore the sentence.
    for (const std::string& sentence : kSentences)
      EXPECT_EQ(remove_bpe(bpe.apply(sentence)), sentence == " " ? "" : sentence);
  });
}

TEST_F(FuzzVocabulary, Dictionaries) {
  write("dict.txt", "das 10\nhaus 7\nalte 7\ndort 1\nmadeupword0000 0\n");
  fuzz("dict.txt", &Mutator::words, 1500, 20, [&] {
    const Dictionary dictionary = Dictionary::read(files_ / "dict.txt");
    EXPECT_EQ(dictionary.size() % 8, 0);
    for (const std::string& sentence : kSentences) dictionary.decode(dictionary.encode(sentence));
  });
}

TEST_F(FuzzVocabulary, Descriptions) {
  Vocabulary::words(Dictionary::of_words({"das"}), Dictionary::of_words({"the"}), true).save(files_ / "v");
  fuzz("v/vocabulary.json", &Mutator::words, 600, 50, [&] { Vocabulary::load(files_ / "v"); });
}

TEST_F(FuzzVocabulary, DescriptionsOfCharacters) {
  TextVocabulary::characters("das alte Haus \u00fc\n").save(files_ / "v");
  fuzz("v/vocabulary.json", &Mutator::words, 600, 50, [&] {
    const TextVocabulary v = TextVocabulary::load(files_ / "v");
    for (const std::string& sentence : kSentences) v.decode(v.encode(sentence));
  });
}

TEST_F(FuzzVocabulary, Pieces) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const auto lines = numbers::sample(numbers::Split::train, 200).source;
  write("sentencepiece.model", SentencePiece::train(lines, 60).model());
  fuzz("sentencepiece.model", &Mutator::bytes, 800, 20, [&] {
    const SentencePiece pieces = SentencePiece::read(files_ / "sentencepiece.model");
    for (const std::string& sentence : kSentences) pieces.decode(pieces.encode(sentence));
  });
}

}  // namespace
}  // namespace foldgrad::testing
