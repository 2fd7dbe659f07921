#include "train/data/lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/files/file.h"
#include "train/system/unicode.h"

namespace foldgrad {

std::vector<std::string> read_lines(const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // would become part of the first word
  std::vector<std::string> lines;
  read_lines_of(path, [&](std::string& line, bool ended) {
    if (lines.empty() && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (line.empty() && !ended) return;
    if (line.ends_with('\r')) line.pop_back();
    if (const std::size_t bad = first_bad_utf8(line); bad != line.npos)
      throw FileError(path, fmt::format("line {} must be UTF-8, got byte {:#04x} at byte {} of the line",
                                        lines.size() + 1, unsigned(static_cast<unsigned char>(line[bad])), bad + 1));
    lines.push_back(std::move(line));
  });
  return lines;
}

bool has_long_word(const std::string& line) {
  return line.size() > kLongestWord &&
         std::ranges::any_of(split_words(line), [](const std::string& word) { return word.size() > kLongestWord; });
}

ParallelText read_parallel_text(const std::string& source, const std::string& target) {
  ParallelText text{read_lines(source), read_lines(target)};
  for (const auto& [path, lines] : {std::pair(&source, &text.source), {&target, &text.target}})
    if (const auto found = std::ranges::find_if(*lines, has_long_word); found != lines->end())
      throw FileError(*path, fmt::format("line {} must not contain a word of more than {} bytes",
                                         found - lines->begin() + 1, kLongestWord));
  if (text.source.size() != text.target.size())
    throw FileError(target, fmt::format("must have as many lines as {}, which has {}, got {}", source,
                                        text.source.size(), text.target.size()));
  if (text.source.empty()) throw FileError(source, "must have at least one line, got 0");
  return text;
}

ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language) {
  const std::string stem = directory + "/" + name + ".";
  return read_parallel_text(stem + source_language, stem + target_language);
}

std::set<std::string> stems(const std::string& directory, const std::string& ending) {
  std::set<std::string> names;
  for (const std::filesystem::path& path : paths_in(directory))
    if (path.extension() == "." + ending) names.insert(path.stem());
  return names;
}

std::vector<std::string> pair_names(const std::string& directory, const std::string& source,
                                    const std::string& target) {
  const std::set<std::string> sources = stems(directory, source), targets = stems(directory, target);
  std::vector<std::string> names;
  std::ranges::set_intersection(sources, targets, std::back_inserter(names));
  if (names.empty())
    throw FileError(directory, fmt::format("has no pair of files NAME.{} and NAME.{}", source, target));
  return names;
}

}  // namespace foldgrad
