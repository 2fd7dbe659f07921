// The vocabulary of both sides of a translation task. Converts text to ids and back. In a model directory, vocabulary/
// has:
//   vocabulary.json                   format, kind, lowercase
//   dict.source.txt, dict.target.txt  dictionaries in fairseq's format (words, bpe)
//   codes                             merges in the format of subword-nmt (bpe)
//   sentencepiece.model               one model for both sides (sentencepiece)
// The built-in task needs only vocabulary.json.
#pragma once
#include <memory>
#include <optional>

#include "train/tasks/translation/bpe.h"
#include "train/tasks/translation/dictionary.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad {

class Vocabulary {
 public:
  static Vocabulary numbers();
  // Splits text into words at white space, in lower case if `lowercase`.
  static Vocabulary words(Dictionary source, Dictionary target, bool lowercase);
  static Vocabulary bpe(Bpe codes, Dictionary source, Dictionary target, bool lowercase);
  static Vocabulary sentence_piece(SentencePiece pieces, bool lowercase);

  // Throws FileError for missing and malformed files, and std::runtime_error if the kind is sentencepiece and the build
  // lacks SentencePiece.
  static Vocabulary load(const std::string& directory);
  // Creates `directory` and writes the vocabulary into it. Throws FileError.
  void save(const std::string& directory) const;

  // Return ids, then kEos; unknown words become kUnk. Throw std::invalid_argument for text that is not UTF-8. They
  // cache words, so threads must not share an object. A source that is blank (is_blank()), or from which the tokenizer
  // makes no tokens, becomes only kEos, which best_hypotheses() (translation.h) does not translate.
  Ids encode_source(const std::string& line) const;
  Ids encode_target(const std::string& line) const;
  // Returns readable text up to the first kEos, with pieces joined to words.
  std::string decode_target(const Ids& ids) const;
  // Returns the line as it is encoded: lower-cased or unchanged. Normalize references in the same way before scoring.
  std::string normalized(const std::string& line) const;

  std::int64_t source_size() const;
  std::int64_t target_size() const;
  const std::string& kind() const { return kind_; }  // "numbers", "words", "bpe", "sentencepiece"

 private:
  Vocabulary(std::string kind, bool lowercase) : kind_(std::move(kind)), lowercase_(lowercase) {}
  Ids encode(const std::string& line, const std::optional<Dictionary>& dictionary) const;

  std::string kind_;
  bool lowercase_;
  std::optional<Dictionary> source_, target_;  // present for all kinds except sentencepiece
  std::unique_ptr<Bpe> bpe_;
  std::optional<SentencePiece> pieces_;
};

}  // namespace foldgrad
