// The text that [data] of a configuration names, and its vocabulary.
#pragma once
#include <map>

#include "train/tasks/language/config.h"
#include "train/tasks/language/vocabulary.h"

namespace foldgrad {

struct LanguageData {
  TextVocabulary vocabulary;
  std::string train, valid;                    // the texts
  std::map<std::string, std::string> digests;  // SHA-256 by file name, of all files that were read
};

// Reads training and validation text. Makes the vocabulary from the training text, unless one is given, as for a
// resumed run. Lines of the result end with "\n", whatever line endings the files have. Throws FileError for files that
// are missing, empty or not UTF-8, and for text from which a vocabulary cannot be learned.
LanguageData read_language_data(const LanguageConfig& config, const std::string& directory,
                                std::optional<TextVocabulary> vocabulary = {});
// Returns the text of a split: "train", "valid", "test", or the name of a file in the directory.
std::string read_language_text(const LanguageConfig& config, const std::string& directory, const std::string& split);
// Reads a text file. Treats line endings and errors as read_language_data() does.
std::string read_whole_text(const std::string& path);

}  // namespace foldgrad
