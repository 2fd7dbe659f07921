// Replaces sentence_piece_sentencepiece.cpp in builds without the library.
#include <stdexcept>

#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "sentence_piece: this build lacks SentencePiece; install libsentencepiece-dev and configure with "
      "FOLDGRAD_SENTENCEPIECE=ON");
}

}  // namespace

struct SentencePiece::Model {};

bool sentence_piece_available() { return false; }

SentencePiece SentencePiece::read(const std::string&) { refuse(); }
SentencePiece SentencePiece::train(const std::vector<std::string>&, std::int64_t, Kind) { refuse(); }
std::string SentencePiece::model() const { refuse(); }
std::int64_t SentencePiece::size() const { refuse(); }
Ids SentencePiece::encode(const std::string&) const { refuse(); }
std::string SentencePiece::decode(const Ids&) const { refuse(); }

}  // namespace foldgrad
