// Converts text, including white space and newlines, to ids and back, for models that predict text. In a model
// directory, vocabulary/ contains:
//   vocabulary.json      the format and the kind; for kind "characters", also the characters in the order of their ids
//   sentencepiece.model  the pieces, for kind "bpe"
#pragma once
#include <optional>

#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad {

class TextVocabulary {
 public:
  static constexpr std::int64_t kUnknown = 0;  // used only with characters; bpe encodes unknown characters as bytes

  // Makes a vocabulary of characters. Entry 0 represents all unknown characters. The characters of `text` follow,
  // ordered by code point. Throws std::invalid_argument for text that is not UTF-8.
  static TextVocabulary characters(const std::string& text);
  // Learns byte-pair encoding from a text. Throws std::invalid_argument if SentencePiece::train() does, and
  // std::runtime_error in a build without SentencePiece.
  static TextVocabulary bpe(const std::string& text, std::int64_t pieces);

  // Throws FileError for missing and malformed files, and std::runtime_error if the kind is bpe and the build lacks
  // SentencePiece.
  static TextVocabulary load(const std::string& directory);
  // Creates `directory` and writes the vocabulary into it. Throws FileError.
  void save(const std::string& directory) const;

  // Throws std::invalid_argument for text that is not UTF-8.
  Ids encode(const std::string& text) const;
  // Encodes as encode() does, but also throws std::invalid_argument for an unknown character. Messages call the text
  // `what`.
  Ids encode_known(const std::string& what, const std::string& text) const;
  // Returns true if the vocabulary has `character`, so that encoding and decoding give it back. U+FFFD, which decode()
  // returns for unknown characters, must itself be in the vocabulary.
  bool has(const std::string& character) const;
  // Decodes ids; unknown characters become U+FFFD. Throws std::invalid_argument for ids outside [0, size()).
  std::string decode(const Ids& ids) const;

  std::int64_t size() const;
  const char* kind() const { return pieces_ ? "bpe" : "characters"; }

 private:
  std::u32string characters_;  // their ids start at 1
  std::optional<SentencePiece> pieces_;
};

}  // namespace foldgrad
