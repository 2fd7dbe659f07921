#include "train/tasks/translation/dictionary.h"

#include <algorithm>
#include <charconv>

#include "engine/check.h"
#include "engine/files/file.h"
#include "train/data/lines.h"
#include "train/system/printable.h"
#include "train/system/unicode.h"

namespace foldgrad {

constexpr const char* kFilling = "madeupword";

Dictionary::Dictionary() {
  for (const char* special : {"<s>", "<pad>", "</s>", "<unk>"}) add(special, 1);
}

bool Dictionary::add(const std::string& word, std::int64_t count) {
  if (!ids_.emplace(word, size()).second) return false;
  words_.push_back({word, count});
  return true;
}

void Dictionary::fill_up() {
  for (int i = 0; size() % 8 != 0; ++i) add(fmt::format("{}{:04}", kFilling, i), 0);
}

Dictionary Dictionary::read(const std::string& path) {
  Dictionary dictionary;
  const std::vector<std::string> lines = read_lines(path);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const std::size_t space = line.rfind(' ');
    std::int64_t count = 0;  // may be negative, as in fairseq
    const auto is_count = [&count, end = line.data() + line.size()](const char* begin) {
      const auto read = std::from_chars(begin, end, count);
      return read.ec == std::errc() && read.ptr == end;
    };
    if (space == line.npos || space == 0 || !is_count(line.data() + space + 1))
      throw FileError(path,
                      fmt::format("line {} must be a word, a space and its count, got {}", i + 1, in_quotes(line)));
    if (!dictionary.add(line.substr(0, space), count))
      throw FileError(path, fmt::format("line {}: the word {} is already in the dictionary", i + 1,
                                        in_quotes(line.substr(0, space))));
  }
  dictionary.fill_up();
  return dictionary;
}

Dictionary Dictionary::of_lines(const std::vector<std::string>& lines) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& line : lines)
    for (const std::string& word : split_words(line)) ++counts[word];
  return sorted(counts);
}

Dictionary Dictionary::joined(const Dictionary& a, const Dictionary& b) {
  std::map<std::string, std::int64_t> counts;
  for (const Dictionary* side : {&a, &b})
    for (std::size_t i = kUnk + 1; i < side->words_.size(); ++i)
      if (const auto& [word, count] = side->words_[i]; count != 0 || !word.starts_with(kFilling)) counts[word] += count;
  return sorted(counts);
}

Dictionary Dictionary::sorted(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> order(counts.begin(), counts.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  Dictionary dictionary;
  for (const auto& [word, count] : order) dictionary.add(word, count);
  dictionary.fill_up();
  return dictionary;
}

Dictionary Dictionary::of_words(const std::vector<std::string>& words) {
  Dictionary dictionary;
  for (const std::string& word : words)
    FOLDGRAD_CHECK(dictionary.add(word, 0), "dictionary: each word must occur only once, got {} twice",
                   in_quotes(word));
  dictionary.fill_up();
  return dictionary;
}

std::string Dictionary::text() const {
  std::string text;
  for (std::size_t i = kUnk + 1; i < words_.size(); ++i)
    text += fmt::format("{} {}\n", words_[i].word, words_[i].count);
  return text;
}

std::int64_t Dictionary::id(const std::string& word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnk : found->second;
}

const std::string& Dictionary::word(std::int64_t id) const {
  FOLDGRAD_CHECK(id >= 0 && id < size(), "dictionary: ids must be in [0, {}), got {}", size(), id);
  return words_[std::size_t(id)].word;
}

Ids Dictionary::encode(const std::string& line) const {
  Ids ids;
  for (const std::string& word : split_words(line)) ids.push_back(id(word));
  ids.push_back(kEos);
  return ids;
}

std::string Dictionary::decode(const Ids& ids) const {
  std::string line;
  for (const std::int64_t id : ids) {
    if (id == kEos) break;
    if (id == kBos || id == kPad) continue;
    line.append(line.empty() ? "" : " ").append(word(id));
  }
  return line;
}

}  // namespace foldgrad
