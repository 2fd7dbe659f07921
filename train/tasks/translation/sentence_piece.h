// SentencePiece (Kudo, Richardson 2018) splits text into pieces, with a model learned from raw text. The library is
// optional; without it (option FOLDGRAD_SENTENCEPIECE) the class throws a std::runtime_error that says so.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/tasks/translation/dictionary.h"

namespace foldgrad {

bool sentence_piece_available();

class SentencePiece {
 public:
  // Reads a SentencePiece file *.model. Throws FileError if reading fails or if the special ids of the file are not
  // ours (kBos, kPad, kEos, kUnk).
  static SentencePiece read(const std::string& path);
  // Learns a model of `vocabulary` pieces, including the four special ones. The same lines always give the same model.
  // `unigram` is for sentences and normalizes white space; `bpe`, byte-pair encoding, keeps text unchanged and has a
  // piece for every byte. Throws std::invalid_argument with the library's reason, for example that the vocabulary is
  // larger than the text supports.
  enum class Kind { unigram, bpe };
  static SentencePiece train(const std::vector<std::string>& lines, std::int64_t vocabulary, Kind kind = Kind::unigram);

  std::string model() const;  // returns the content of *.model
  std::int64_t size() const;  // returns the number of pieces

  // Returns the ids of the pieces, then kEos.
  Ids encode(const std::string& line) const;
  // Returns the text up to the first kEos. Unknown pieces become " \u2047 ", as the library prints them.
  std::string decode(const Ids& ids) const;

 private:
  struct Model;
  explicit SentencePiece(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

}  // namespace foldgrad
