// Files of text, line by line, and pairs of them: sentences and their translations.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace foldgrad {

// Returns the lines of a file without their ends ("\n" or "\r\n") and without a byte order mark at its beginning.
// Throws FileError, which names the file, if it cannot be read. If a line is not UTF-8, FileError also names the line.
std::vector<std::string> read_lines(const std::string& path);

struct ParallelText {
  std::vector<std::string> source, target;  // line i of `target` translates line i of `source`
};

// The longest word that text to translate may have, in bytes. Some subword models take time that grows with the square
// of a word's length: SentencePiece takes 20 s for a word of a megabyte.
constexpr std::size_t kLongestWord = 1 << 14;

// Returns true if a word of the line, between white space, is longer than kLongestWord.
bool has_long_word(const std::string& line);

// Throws FileError also for empty files, for different numbers of lines, and for words longer than kLongestWord. Lines
// may be empty.
ParallelText read_parallel_text(const std::string& source, const std::string& target);
// Reads DIRECTORY/NAME.SOURCE_LANGUAGE and DIRECTORY/NAME.TARGET_LANGUAGE: "train.de" and "train.en".
ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language);

}  // namespace foldgrad
