// Reads text files line by line, and pairs of files with sentences and their translations.
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace foldgrad {

using Lines = std::vector<std::string>;

// Returns the lines of a file without line endings ("\n" or "\r\n") and without a byte order mark at the beginning.
// Throws FileError, which names the file, if the file cannot be read. If a line is not UTF-8, the error also names the
// line.
Lines read_lines(const std::string& path);

struct ParallelText {
  Lines source, target;  // line i of `target` translates line i of `source`
};

// The length limit for words in text to translate, in bytes. The time that some subword models take grows with the
// square of a word's length: SentencePiece takes 20 s for a word of one megabyte.
constexpr std::size_t kLongestWord = 1 << 14;

// Returns true if the line has a word, delimited by white space, that is longer than kLongestWord.
bool has_long_word(const std::string& line);

// Reads a pair of files. Throws FileError if read_lines() does, if a file is empty, if the line counts differ, or if a
// word is longer than kLongestWord. Lines may be empty.
ParallelText read_parallel_text(const std::string& source, const std::string& target);
// Reads DIRECTORY/NAME.SOURCE_LANGUAGE and DIRECTORY/NAME.TARGET_LANGUAGE: "train.de" and "train.en".
ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language);

// Returns NAME for each file "NAME.ending" in the directory.
std::set<std::string> stems(const std::string& directory, const std::string& ending);
// Returns each NAME for which the directory contains NAME.source and NAME.target, sorted. Throws FileError if the
// directory does not exist or has no pairs.
std::vector<std::string> pair_names(const std::string& directory, const std::string& source, const std::string& target);

}  // namespace foldgrad
