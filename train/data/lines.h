// Files of text, line by line, and pairs of them: sentences and their translations.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// Returns the lines of a file without their ends ("\n" or "\r\n") and without a byte order mark at its beginning.
// Throws FileError, naming the file, when it cannot be read, and naming the line too when that is not UTF-8.
std::vector<std::string> read_lines(const std::string& path);

struct ParallelText {
  std::vector<std::string> source, target;  // line i of one is for line i of the other
};

// Throws FileError also for files without a line and for different numbers of lines. Lines may be empty: sentences
// without words.
ParallelText read_parallel_text(const std::string& source, const std::string& target);
// Reads DIRECTORY/NAME.SOURCE_LANGUAGE and DIRECTORY/NAME.TARGET_LANGUAGE: "train.de" and "train.en".
ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language);

}  // namespace foldgrad
