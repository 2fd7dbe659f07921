// Sentences and their translations: two files of plain text, one sentence a line, line i of one for line i of the
// other.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

struct ParallelText {
  std::vector<std::string> source, target;  // as many of each
};

// The lines of a file without their ends ("\n" or "\r\n") and without a byte order mark at its beginning. Throws
// FileError, naming the file, when it cannot be read, and naming the line too when that is not UTF-8.
std::vector<std::string> read_lines(const std::string& path);

// DIRECTORY/NAME.SOURCE_LANGUAGE and DIRECTORY/NAME.TARGET_LANGUAGE: "train.de" and "train.en". Throws FileError also
// for files without a line and for different numbers of lines. Lines may be empty: they are sentences without words.
ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language);

}  // namespace foldgrad
