#include "train/data/text/vocabulary.h"

#include "engine/check.h"
#include "train/data/text/numbers.h"
#include "train/system/unicode.h"

namespace foldgrad {

Vocabulary Vocabulary::numbers() {
  Vocabulary v("numbers", false);
  v.source_ = v.target_ = Dictionary::of_words(numbers::vocabulary());
  return v;
}

Vocabulary Vocabulary::words(Dictionary source, Dictionary target, bool lowercase) {
  Vocabulary v("words", lowercase);
  v.source_ = std::move(source);
  v.target_ = std::move(target);
  return v;
}

Vocabulary Vocabulary::bpe(Bpe codes, Dictionary source, Dictionary target, bool lowercase) {
  Vocabulary v = words(std::move(source), std::move(target), lowercase);
  v.kind_ = "bpe";
  v.bpe_ = std::make_unique<Bpe>(std::move(codes));
  return v;
}

Vocabulary Vocabulary::sentence_piece(SentencePiece pieces, bool lowercase) {
  Vocabulary v("sentencepiece", lowercase);
  v.pieces_ = std::move(pieces);
  return v;
}

std::string Vocabulary::normalized(const std::string& line) const {
  return lowercase_ ? encode_utf8(lower(decode_utf8(line))) : line;
}

Ids Vocabulary::encode(const std::string& line, const std::optional<Dictionary>& dictionary) const {
  const std::size_t bad = first_bad_utf8(line);
  FOLDGRAD_CHECK(bad == line.npos, "vocabulary: the line must be UTF-8, got byte {:#04x} at offset {}",
                 unsigned(static_cast<unsigned char>(line[bad])), bad);
  const std::string text = normalized(line);
  if (pieces_) return pieces_->encode(text);
  if (bpe_) return dictionary->encode(bpe_->apply(text));
  return dictionary->encode(kind_ == "numbers" ? numbers::cut(text) : text);
}

Ids Vocabulary::encode_source(const std::string& line) const { return encode(line, source_); }
Ids Vocabulary::encode_target(const std::string& line) const { return encode(line, target_); }

std::string Vocabulary::decode_target(const Ids& ids) const {
  if (pieces_) return pieces_->decode(ids);
  const std::string text = target_->decode(ids);
  return kind_ == "words" ? text : remove_bpe(text);
}

std::int64_t Vocabulary::source_size() const { return pieces_ ? pieces_->size() : source_->size(); }
std::int64_t Vocabulary::target_size() const { return pieces_ ? pieces_->size() : target_->size(); }

}  // namespace foldgrad
