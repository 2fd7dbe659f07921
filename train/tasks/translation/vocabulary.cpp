#include "train/tasks/translation/vocabulary.h"

#include <nlohmann/json.hpp>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "train/system/json_file.h"
#include "train/system/unicode.h"
#include "train/tasks/translation/numbers.h"

namespace foldgrad {

constexpr int kFormat = 1;
constexpr const char* kDescription = "/vocabulary.json";
constexpr const char* kSource = "/dict.source.txt";
constexpr const char* kTarget = "/dict.target.txt";
constexpr const char* kCodes = "/codes";
constexpr const char* kPieces = "/sentencepiece.model";

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

std::string Vocabulary::normalized(const std::string& line) const { return lowercase_ ? lower(line) : line; }

Ids Vocabulary::encode(const std::string& line, const std::optional<Dictionary>& dictionary) const {
  const std::size_t bad = first_bad_utf8(line);
  FOLDGRAD_CHECK(bad == line.npos, "vocabulary: the line must be UTF-8, got byte {:#04x} at offset {}",
                 unsigned(static_cast<unsigned char>(line[bad])), bad);
  const std::string text = normalized(line);
  if (pieces_) return pieces_->encode(text);
  if (bpe_) return dictionary->encode(bpe_->apply(text));
  return dictionary->encode(kind_ == "numbers" ? numbers::cut(text) : text);
}

Ids Vocabulary::encode_source(const std::string& line) const {
  Ids ids = encode(line, source_);  // rejects text that is not UTF-8
  return is_blank(line) ? Ids{kEos} : ids;
}
Ids Vocabulary::encode_target(const std::string& line) const { return encode(line, target_); }

std::string Vocabulary::decode_target(const Ids& ids) const {
  if (pieces_) return pieces_->decode(ids);
  const std::string text = target_->decode(ids);
  return kind_ == "words" ? text : remove_bpe(text);
}

std::int64_t Vocabulary::source_size() const { return pieces_ ? pieces_->size() : source_->size(); }
std::int64_t Vocabulary::target_size() const { return pieces_ ? pieces_->size() : target_->size(); }

Vocabulary Vocabulary::load(const std::string& directory) {
  const std::string path = directory + kDescription;
  const nlohmann::json json = read_json(path);
  if (!json.is_object()) throw FileError(path, "must be a JSON object");
  const auto expect = [&](const char* key, bool right, const char* must_be) {
    if (!right)
      throw FileError(path, fmt::format("\"{}\" must be {}, got {}", key, must_be,
                                        json.contains(key) ? shown(json[key]) : "nothing"));
  };
  const nlohmann::json format = json.value("format", nlohmann::json()), kind = json.value("kind", nlohmann::json()),
                       lowercase = json.value("lowercase", nlohmann::json());
  expect("format", format == kFormat, "1");
  expect("kind", kind == "numbers" || kind == "words" || kind == "bpe" || kind == "sentencepiece",
         "one of numbers, words, bpe, sentencepiece");
  expect("lowercase", lowercase.is_boolean(), "true or false");
  if (kind == "numbers") return numbers();
  if (kind == "sentencepiece") return sentence_piece(SentencePiece::read(directory + kPieces), lowercase);
  Dictionary source = Dictionary::read(directory + kSource), target = Dictionary::read(directory + kTarget);
  if (kind == "words") return words(std::move(source), std::move(target), lowercase);
  return bpe(Bpe(directory + kCodes), std::move(source), std::move(target), lowercase);
}

void Vocabulary::save(const std::string& directory) const {
  make_directories(directory);
  if (pieces_) write_file_atomically(directory + kPieces, pieces_->model());
  if (bpe_) write_file_atomically(directory + kCodes, bpe_->text());
  if (kind_ == "words" || kind_ == "bpe") {
    write_file_atomically(directory + kSource, source_->text());
    write_file_atomically(directory + kTarget, target_->text());
  }
  const nlohmann::ordered_json description{{"format", kFormat}, {"kind", kind_}, {"lowercase", lowercase_}};
  write_file_atomically(directory + kDescription, description.dump(2) + "\n");
}

}  // namespace foldgrad
