#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/files/atomic_file.h"
#include "train/data/text/vocabulary.h"
#include "train/system/json_file.h"

namespace foldgrad {
namespace {

constexpr int kFormat = 1;
constexpr const char* kDescription = "/vocabulary.json";
constexpr const char* kSource = "/dict.source.txt";
constexpr const char* kTarget = "/dict.target.txt";
constexpr const char* kCodes = "/codes";
constexpr const char* kPieces = "/sentencepiece.model";

struct Description {
  std::string kind;
  bool lowercase;
};

Description read_description(const std::string& path) {
  const nlohmann::json json = read_json(path);
  if (!json.is_object()) throw FileError(path, "must be a JSON object");
  const auto expect = [&](const char* key, bool right, const char* must_be) {
    if (!right)
      throw FileError(path, fmt::format("\"{}\" must be {}, got {}", key, must_be,
                                        json.contains(key) ? shown(json[key]) : "nothing"));
  };
  const auto format = json.find("format"), kind = json.find("kind"), lowercase = json.find("lowercase");
  expect("format", format != json.end() && *format == kFormat, "1");
  bool known = false;
  for (const char* name : {"numbers", "words", "bpe", "sentencepiece"}) known |= kind != json.end() && *kind == name;
  expect("kind", known, "one of numbers, words, bpe, sentencepiece");
  expect("lowercase", lowercase != json.end() && lowercase->is_boolean(), "true or false");
  return {*kind, *lowercase};
}

}  // namespace

Vocabulary Vocabulary::load(const std::string& directory) {
  const auto [kind, lowercase] = read_description(directory + kDescription);
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
