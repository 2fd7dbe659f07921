#include "train/tasks/language/data.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "engine/files/file.h"
#include "train/data/data_sets.h"
#include "train/data/lines.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

// Returns the files of the training text, sorted by name; leaves out the files of validation and test.
std::vector<std::string> training_files(const LanguageConfig& config, const std::string& directory) {
  const std::string place = config.train.empty() ? directory : (fs::path(directory) / config.train).string();
  if (!fs::exists(place))
    throw FileError(place, fmt::format("does not exist; data.directory = \"{}\" is {}", config.directory,
                                       where_data_lies(directory)));
  if (!config.train.empty()) return {place};
  const auto is_kept = [&](const fs::path& file) {  // compares files, since one file may have several paths
    std::error_code not_there;
    return fs::equivalent(file, fs::path(directory) / config.valid, not_there) ||
           fs::equivalent(file, fs::path(directory) / config.test, not_there);
  };
  std::vector<std::string> files;
  for (const fs::path& file : paths_in(directory))
    if (const fs::path end = file.extension(); (end == ".txt" || end == ".md") && !is_kept(file)) files.push_back(file);
  if (files.empty())
    throw FileError(directory, "must have text, in files NAME.txt or NAME.md; or data.train must name a file");
  return files;
}

struct Texts {
  std::string train, valid;
};

// Splits off the last tenth, at the beginning of a line if possible.
Texts split_off_valid(const std::string& text) {
  std::size_t at = text.size() - text.size() / 10;
  const std::size_t line = text.find('\n', at - 1);
  if (line != text.npos && line + 1 < text.size()) at = line + 1;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;  // not within a character
  return {text.substr(0, at), text.substr(at)};
}

Texts read_texts(const LanguageConfig& config, const std::string& directory,
                 std::map<std::string, std::string>& digests) {
  const auto read = [&](const std::string& path, const std::string& name) {
    std::string text = read_whole_text(path);
    digests[name] = sha256_of_file(path);  // after read(), which rejects sparse files; their digests would take hours
    return text;
  };
  const std::string valid = fs::path(config.valid).filename();
  std::string train;
  for (const std::string& path : training_files(config, directory)) {
    const std::string name = fs::path(path).filename();
    train += read(path, name == valid ? "train/" + name : name);  // two directories may have files with the same name
  }
  if (config.train.empty()) digests["training text"] = sha256(train);  // detects files that were added or removed
  if (config.valid.empty()) return split_off_valid(train);
  return {train, read(fs::path(directory) / config.valid, valid)};
}

}  // namespace

std::string read_whole_text(const std::string& path) {
  const std::vector<std::string> lines = read_lines(path);
  if (lines.empty()) throw FileError(path, "must have text, got an empty file");
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

LanguageData read_language_data(const LanguageConfig& config, const std::string& directory,
                                std::optional<TextVocabulary> vocabulary) {
  std::map<std::string, std::string> digests;
  Texts texts = read_texts(config, directory, digests);
  if (!vocabulary) try {
      vocabulary = config.tokenizer == TextTokenizer::bpe ? TextVocabulary::bpe(texts.train, config.vocabulary)
                                                          : TextVocabulary::characters(texts.train);
    } catch (const std::invalid_argument& e) {
      throw FileError(fs::path(directory) / config.train,
                      fmt::format("data.tokenizer = \"{}\" with data.vocabulary = {}: {}", name(config.tokenizer),
                                  config.vocabulary, e.what()));
    }
  return {std::move(*vocabulary), std::move(texts.train), std::move(texts.valid), std::move(digests)};
}

std::string read_language_text(const LanguageConfig& config, const std::string& directory, const std::string& split) {
  std::map<std::string, std::string> unused;
  if (split == "test" && !config.test.empty()) return read_whole_text(fs::path(directory) / config.test);
  if (split == "train" || split == "valid" || split == "test") {
    Texts texts = read_texts(config, directory, unused);
    return split == "train" ? texts.train : texts.valid;
  }
  return read_whole_text(fs::path(directory) / split);
}

}  // namespace foldgrad
