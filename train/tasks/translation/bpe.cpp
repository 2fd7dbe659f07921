#include "train/tasks/translation/bpe.h"

#include "engine/check.h"
#include "engine/files/file.h"
#include "train/data/lines.h"
#include "train/system/printable.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

constexpr const char* kBlank = " \r\n";
const std::string kWordEnd = "</w>";

std::string stripped(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::vector<std::string> characters(const std::string& word) {
  std::vector<std::string> result;
  for (const char32_t c : decode_utf8(word)) result.push_back(encode_utf8({&c, 1}));
  return result;
}

}  // namespace

Bpe::Bpe(const std::string& codes_path) : text_(read_file(codes_path)) {
  std::vector<std::string> lines = read_lines(codes_path);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.empty()) throw FileError(codes_path, "must have at least one line, got 0");
  const bool has_version = lines[0].starts_with("#version:");
  const std::string version = has_version ? stripped(lines[0].substr(lines[0].find(':') + 1)) : "0.1";
  if (version != "0.1" && version != "0.2")
    throw FileError(codes_path, fmt::format("the version must be 0.1 or 0.2, got {}", in_quotes(version)));
  marks_last_character_ = version == "0.2";
  for (std::size_t i = has_version ? 1 : 0; i < lines.size(); ++i) {
    const std::string pair = stripped(lines[i]);
    const std::size_t space = pair.find(' ');
    if (space == pair.npos || pair.find(' ', space + 1) != pair.npos)
      throw FileError(codes_path,
                      fmt::format("line {} must be two pieces separated by a space, got {}", i + 1, in_quotes(pair)));
    ranks_.emplace(pair, i);  // a repeated pair keeps its first rank
  }
}

std::vector<std::string> Bpe::merged(std::vector<std::string> symbols) const {
  while (symbols.size() > 1) {
    std::size_t best = std::string::npos, at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks_.find(symbols[i] + ' ' + symbols[i + 1]);
      if (found != ranks_.end() && found->second < best) best = found->second, at = i;
    }
    if (best == std::string::npos) break;
    const std::string left = symbols[at], right = symbols[at + 1];
    std::vector<std::string> shorter;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool here = i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
      shorter.push_back(here ? left + right : symbols[i]);
      i += here;
    }
    symbols = std::move(shorter);
  }
  return symbols;
}

const std::vector<std::string>& Bpe::pieces(const std::string& word) {
  const auto [found, is_new] = seen_.try_emplace(word);
  if (!is_new) return found->second;
  std::vector<std::string> symbols = characters(word);
  if (symbols.size() > 1) {
    if (marks_last_character_)
      symbols.back() += kWordEnd;
    else
      symbols.push_back(kWordEnd);
    symbols = merged(std::move(symbols));
    std::string& last = symbols.back();
    last.resize(last.size() - kWordEnd.size());
    if (last.empty()) symbols.pop_back();
  }
  return found->second = std::move(symbols);
}

std::string Bpe::apply(const std::string& line) {
  FOLDGRAD_CHECK(first_bad_utf8(line) == line.npos, "bpe: the line must be UTF-8, got {}", in_quotes(line));
  const std::size_t begin = line.find_first_not_of(kBlank);
  if (begin == line.npos) return line;
  const std::size_t end = line.find_last_not_of(kBlank) + 1;
  std::string result = line.substr(0, begin);
  for (std::size_t at = begin; at < end;) {
    const std::size_t space = std::min(line.find(' ', at), end);
    if (space > at) {
      const std::vector<std::string>& parts = pieces(line.substr(at, space - at));
      if (at > begin) result += ' ';
      for (std::size_t i = 0; i < parts.size(); ++i) result.append(i ? "@@ " : "").append(parts[i]);
    }
    at = space + 1;
  }
  return result.append(line.substr(end));
}

std::string remove_bpe(const std::string& line) {
  std::string result = line + ' ';
  for (std::size_t at = result.find("@@ "); at != result.npos; at = result.find("@@ ", at)) result.erase(at, 3);
  const auto last = [&result] {  // the first byte of the last character
    std::size_t at = result.size() - 1;
    while (at > 0 && (result[at] & 0xC0) == 0x80) --at;
    return at;
  };
  // Removes white space at the end, as Python's str.rstrip() does.
  while (!result.empty() && is_space(code_point_at(result, last()).code)) result.resize(last());
  return result;
}

}  // namespace foldgrad
