// The text that [data] of a configuration names, its vocabulary and its ids.
#pragma once
#include <map>

#include "train/config/config.h"
#include "train/data/language/text_vocabulary.h"

namespace foldgrad {

struct LanguageData {
  TextVocabulary vocabulary;
  std::string train, valid;                    // text
  std::map<std::string, std::string> digests;  // by file name: SHA-256; of all files that were read
};

// Reads all of it; the vocabulary is made of the training text, unless one is given: that of the run which is resumed.
// Lines end with "\n" whatever the files have. Throws FileError for files that are missing, empty or not UTF-8, and for
// a vocabulary that cannot be learned from the text.
LanguageData read_language_data(const LanguageConfig& config, const std::string& directory,
                                std::optional<TextVocabulary> vocabulary = {});
// Returns the text of a split: "train", "valid", "test", or another file in the directory.
std::string read_language_text(const LanguageConfig& config, const std::string& directory, const std::string& split);
// Reads a file of text, with the same line ends and errors.
std::string read_whole_text(const std::string& path);

}  // namespace foldgrad
