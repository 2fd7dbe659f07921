#include "train/tasks/language/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/check.h"
#include "engine/contains.h"
#include "engine/files/atomic_file.h"
#include "train/system/json_file.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

constexpr int kFormat = 1;
constexpr const char* kDescription = "/vocabulary.json";
constexpr const char* kPieces = "/sentencepiece.model";
constexpr char32_t kReplacement = 0xFFFD;

// Splits the text into lines that keep their newlines; the last line may have none.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

}  // namespace

TextVocabulary TextVocabulary::characters(const std::string& text) {
  TextVocabulary v;
  v.characters_ = decode_utf8(text);
  std::ranges::sort(v.characters_);
  const auto repeated = std::ranges::unique(v.characters_);
  v.characters_.erase(repeated.begin(), repeated.end());
  return v;
}

TextVocabulary TextVocabulary::bpe(const std::string& text, std::int64_t pieces) {
  std::vector<std::string> lines = lines_of(text);
  for (std::string& line : lines)
    if (line.ends_with('\n')) line.pop_back();
  TextVocabulary v;
  v.pieces_ = SentencePiece::train(lines, pieces, SentencePiece::Kind::bpe);
  return v;
}

TextVocabulary TextVocabulary::load(const std::string& directory) {
  const std::string path = directory + kDescription;
  const nlohmann::json json = read_json(path);
  const auto is = [&](const char* key, const nlohmann::json& value) {
    return json.is_object() && json.contains(key) && json[key] == value;
  };
  if (!is("format", kFormat)) throw FileError(path, fmt::format("must be an object with \"format\" {}", kFormat));
  TextVocabulary v;
  if (is("kind", "bpe")) {
    v.pieces_ = SentencePiece::read(directory + kPieces);
    return v;
  }
  if (!is("kind", "characters")) throw FileError(path, "\"kind\" must be characters or bpe");
  const nlohmann::json all = json.value("characters", nlohmann::json());
  if (!all.is_string()) throw FileError(path, "\"characters\" must be text");
  v.characters_ = decode_utf8(all.get<std::string>());
  if (!std::ranges::is_sorted(v.characters_, std::less_equal()))
    throw FileError(path, "\"characters\" must list distinct characters, ordered by code point");
  return v;
}

void TextVocabulary::save(const std::string& directory) const {
  make_directories(directory);
  nlohmann::ordered_json description{{"format", kFormat}, {"kind", kind()}};
  if (pieces_)
    write_file_atomically(directory + kPieces, pieces_->model());
  else
    description["characters"] = encode_utf8(characters_);
  write_file_atomically(directory + kDescription, description.dump(2) + "\n");
}

Ids TextVocabulary::encode(const std::string& text) const {
  Ids ids;
  if (pieces_) {
    for (const std::string& line : lines_of(text)) {
      const Ids of_line = pieces_->encode(line);
      ids.insert(ids.end(), of_line.begin(), of_line.end() - 1);  // leaves out kEos
    }
    return ids;
  }
  for (const char32_t c : decode_utf8(text)) {
    const auto found = std::ranges::lower_bound(characters_, c);
    ids.push_back(found == characters_.end() || *found != c ? kUnknown : 1 + (found - characters_.begin()));
  }
  return ids;
}

Ids TextVocabulary::encode_known(const std::string& what, const std::string& text) const {
  const std::size_t bad = first_bad_utf8(text);
  FOLDGRAD_CHECK(bad == text.npos, "{} is not UTF-8 at byte {}", what, bad + 1);
  for (std::size_t at = 0; at < text.size();) {
    const std::string character = text.substr(at, code_point_at(text, at).bytes);
    FOLDGRAD_CHECK(has(character), "{}: the vocabulary has no character \"{}\"", what, character);
    at += character.size();
  }
  return encode(text);
}

bool TextVocabulary::has(const std::string& character) const {
  const Ids ids = encode(character);
  return !contains(ids, pieces_ ? kUnk : kUnknown) && decode(ids) == character;
}

std::string TextVocabulary::decode(const Ids& ids) const {
  for (const std::int64_t id : ids)
    FOLDGRAD_CHECK(id >= 0 && id < size(), "vocabulary: ids must be in [0, {}), got {}", size(), id);
  if (pieces_) {
    Ids text = ids;
    std::erase(text, kEos);  // kEos would end the text
    return pieces_->decode(text);
  }
  std::u32string text;
  for (const std::int64_t id : ids) text += id == kUnknown ? kReplacement : characters_[std::size_t(id - 1)];
  return encode_utf8(text);
}

std::int64_t TextVocabulary::size() const { return pieces_ ? pieces_->size() : std::int64_t(characters_.size()) + 1; }

}  // namespace foldgrad
