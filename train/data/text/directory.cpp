#include "train/data/text/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_set>

#include "engine/files/atomic_file.h"
#include "train/data/lines.h"
#include "train/data/text/sentence_piece.h"
#include "train/system/digest.h"
#include "train/system/printable.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

// Names of the directory's files with this ending.
std::set<std::string> stems(const std::string& directory, const std::string& ending) {
  std::set<std::string> names;
  for (const fs::path& path : paths_in(directory))
    if (path.extension() == "." + ending) names.insert(path.stem());
  return names;
}

void check_digests(const std::string& directory, const std::string& digests, std::vector<std::string>& found) {
  for (const std::string& line : read_lines(digests)) {
    const std::size_t space = line.find_first_of(" ");
    const std::size_t name = line.find_first_not_of(" *", space);
    if (space != 64 || name == line.npos) {
      found.push_back(fmt::format("{}: must have lines \"SHA-256  NAME\", got {}", digests, in_quotes(line)));
      continue;
    }
    const std::string path = directory + "/" + line.substr(name);
    try {
      const std::string got = sha256_of_file(path);
      if (got != line.substr(0, 64))
        found.push_back(fmt::format("{}: must have SHA-256 {}, got {}", path, line.substr(0, 64), got));
    } catch (const FileError& e) {
      found.push_back(e.what());
    }
  }
}

// Writes a file and the line that kDigestFile has of it.
std::string write(const std::string& directory, const std::string& name, const std::string& content) {
  write_file_atomically(directory + "/" + name, content);
  return fmt::format("{}  {}\n", sha256(content), name);
}

std::string joined(const Lines& lines) { return fmt::format("{}\n", fmt::join(lines, "\n")); }

}  // namespace

std::vector<std::string> pair_names(const std::string& directory, const Languages& languages) {
  const std::set<std::string> source = stems(directory, languages.source), target = stems(directory, languages.target);
  std::vector<std::string> names;
  std::set_intersection(source.begin(), source.end(), target.begin(), target.end(), std::back_inserter(names));
  if (names.empty())
    throw FileError(directory, fmt::format("has no files NAME.{} and NAME.{}", languages.source, languages.target));
  return names;
}

SideSummary summarize(const Lines& lines) {
  SideSummary side;
  std::unordered_set<std::string> seen;
  for (const std::string& line : lines) {
    const Lines words = split_words(line);
    side.words += std::int64_t(words.size());
    side.longest = std::max(side.longest, std::int64_t(words.size()));
    side.empty += words.empty();
    seen.insert(words.begin(), words.end());
  }
  side.distinct = std::int64_t(seen.size());
  return side;
}

std::vector<std::string> problems(const std::string& directory, const Languages& languages,
                                  const std::string& digests) {
  std::vector<std::string> found;
  for (const std::string& name : pair_names(directory, languages)) try {
      read_parallel_text(directory, name, languages.source, languages.target);
    } catch (const FileError& e) {
      found.push_back(e.what());
    }
  const std::set<std::string> source = stems(directory, languages.source), target = stems(directory, languages.target);
  const auto unpaired = [&](const std::set<std::string>& some, const std::set<std::string>& others,
                            const std::string& ending, const std::string& other) {
    for (const std::string& name : some)
      if (!others.count(name))
        found.push_back(fmt::format("{}/{}.{}: there is no {}.{} beside it", directory, name, ending, name, other));
  };
  unpaired(source, target, languages.source, languages.target);
  unpaired(target, source, languages.target, languages.source);
  const std::string own = directory + "/" + kDigestFile;
  if (!digests.empty() || fs::exists(own)) check_digests(directory, digests.empty() ? own : digests, found);
  return found;
}

std::vector<std::string> prepare(const std::string& from, const std::string& to, const Preparation& options) {
  const auto& [source, target] = options.languages;
  std::vector<std::string> names;
  make_directories(to);
  std::string digests;
  Lines train;
  for (const std::string& old : options.only.empty() ? pair_names(from, options.languages) : options.only) {
    const auto found = options.renamed.find(old);
    const std::string name = found != options.renamed.end() ? found->second : old == "val" ? "valid" : old;
    ParallelText text = read_parallel_text(from, old, source, target);
    for (Lines* lines : {&text.source, &text.target}) {
      if (options.lowercase)
        for (std::string& line : *lines) line = lower(line);
      if (name == "train") train.insert(train.end(), lines->begin(), lines->end());
    }
    digests += write(to, name + "." + source, joined(text.source));
    digests += write(to, name + "." + target, joined(text.target));
    names.push_back(name);
  }
  if (options.sentence_piece > 0)
    digests += write(to, "sentencepiece.model", SentencePiece::train(train, options.sentence_piece).model());
  write_file_atomically(to + "/" + kDigestFile, digests);
  return names;
}

}  // namespace foldgrad
