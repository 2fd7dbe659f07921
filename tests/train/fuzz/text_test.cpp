// Damaged configurations, codes, dictionaries, models of SentencePiece and descriptions of vocabularies.
#include <fmt/format.h>

#include "tests/train/fuzz/fuzz.h"
#include "train/data/language/text_vocabulary.h"
#include "train/data/text/bpe.h"
#include "train/data/text/dictionary.h"
#include "train/data/text/numbers.h"
#include "train/data/text/sentence_piece.h"
#include "train/data/text/vocabulary.h"

namespace foldgrad::testing {
namespace {

using FuzzConfig = Fuzz;

// A file that is accepted can be written and read again.
TEST_F(FuzzConfig, OfAFile) {
  const std::string path = files_ / "c.toml";
  std::vector<std::string> good{config_text(ExperimentConfig())};
  for (const char* name : {"multi30k", "iwslt14-pn_star", "shapes-vit", "docs-gpt"}) {
    const std::string config = fmt::format("{}/configs/{}.toml", FOLDGRAD_SOURCE_DIR, name);
    good.push_back(read_bytes(config));
    good.push_back(config_text(read_config(config)));
  }
  write_bytes(files_ / "iwslt14.toml", read_bytes(FOLDGRAD_SOURCE_DIR "/configs/iwslt14.toml"));
  fuzz(
      2000, path, 20, [&](Mutator& m) { return m.words(m.one_of(good)); },
      [&] {
        const ExperimentConfig config = read_config(path);
        EXPECT_EQ(parse_config(config_text(config), files_.path()), config) << read_bytes(path);
      });
}

TEST_F(FuzzConfig, OfASetting) {
  const std::string path = files_ / "setting";
  const std::vector<std::string> good{"train.lr=0.5", "data.source=\"de\"", "norm.un.window=3", "model.pre_norm=true"};
  fuzz(
      1000, path, 20, [&](Mutator& m) { return m.words(m.one_of(good)); },
      [&] {
        try {
          parse_config("", "", {read_bytes(path)});
        } catch (const ConfigError& e) {  // they have no file to name
          ASSERT_EQ(std::string(e.what()).rfind("--set ", 0), 0u) << e.what();
          throw ConfigError(files_.path());
        }
      });
}

const std::vector<std::string> kSentences{"das alte Haus dort", "", " ", "a\u0301 \U0001f600 haushaus", "x"};

using FuzzVocabulary = Fuzz;

TEST_F(FuzzVocabulary, Codes) {
  const std::string path = files_ / "codes";
  const std::string good = "#version: 0.2\nh a\nha u\nhau s</w>\nd a\nda s</w>\na l\nt e</w>\nal te</w>\n";
  fuzz(
      1500, path, 20, [&](Mutator& m) { return m.words(good); },
      [&] {
        Bpe bpe(path);
        // Merging and undoing it gives the words back.
        for (const std::string& sentence : kSentences)
          EXPECT_EQ(remove_bpe(bpe.apply(sentence)), sentence == " " ? "" : sentence);
      });
}

TEST_F(FuzzVocabulary, Dictionaries) {
  const std::string path = files_ / "dict.txt";
  const std::string good = "das 10\nhaus 7\nalte 7\ndort 1\nmadeupword0000 0\n";
  fuzz(
      1500, path, 20, [&](Mutator& m) { return m.words(good); },
      [&] {
        const Dictionary dictionary = Dictionary::read(path);
        EXPECT_EQ(dictionary.size() % 8, 0);
        for (const std::string& sentence : kSentences) dictionary.decode(dictionary.encode(sentence));
      });
}

TEST_F(FuzzVocabulary, Descriptions) {
  Vocabulary::words(Dictionary::of_words({"das"}), Dictionary::of_words({"the"}), true).save(files_ / "v");
  const std::string path = files_ / "v/vocabulary.json", good = read_bytes(path);
  fuzz(
      600, path, 50, [&](Mutator& m) { return m.words(good); }, [&] { Vocabulary::load(files_ / "v"); });
}

TEST_F(FuzzVocabulary, DescriptionsOfCharacters) {
  TextVocabulary::characters("das alte Haus \u00fc\n").save(files_ / "v");
  const std::string path = files_ / "v/vocabulary.json", good = read_bytes(path);
  fuzz(
      600, path, 50, [&](Mutator& m) { return m.words(good); },
      [&] {
        const TextVocabulary v = TextVocabulary::load(files_ / "v");
        for (const std::string& sentence : kSentences) v.decode(v.encode(sentence));
      });
}

TEST_F(FuzzVocabulary, Pieces) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const std::string path = files_ / "sentencepiece.model";
  const auto lines = numbers::sample(numbers::Split::train, 200).source;
  const std::string good = SentencePiece::train(lines, 60).model();
  fuzz(
      800, path, 20, [&](Mutator& m) { return m.bytes(good); },
      [&] {
        const SentencePiece pieces = SentencePiece::read(path);
        for (const std::string& sentence : kSentences) pieces.decode(pieces.encode(sentence));
      });
}

}  // namespace
}  // namespace foldgrad::testing
