// Byte pair encoding (Sennrich, Haddow, Birch 2016) as `subword-nmt apply-bpe` 0.3 does it. A word starts as its
// characters, the last one marked with "</w>". Each step takes the pair of adjacent pieces that comes first in the
// codes file, and merges all its occurrences from left to right. At the end, all pieces except the last of a word get
// the separator "@@".
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

namespace foldgrad {

class Bpe {
 public:
  // Reads a file written by `subword-nmt learn-bpe`: "#version: 0.2", then one pair per line, the most frequent first.
  // A file without the first line has version 0.1, in which "</w>" begins as a separate piece. Throws FileError, which
  // names the line.
  explicit Bpe(const std::string& codes_path);

  // Splits "resumption of" into "res@@ um@@ ption of". Keeps blanks at both ends, and replaces several blanks between
  // words with one. Caches words, so threads must not share an object. Throws std::invalid_argument for text that is
  // not UTF-8.
  std::string apply(const std::string& line);

  const std::string& text() const { return text_; }  // the content of the file

 private:
  const std::vector<std::string>& pieces(const std::string& word);
  std::vector<std::string> merged(std::vector<std::string> symbols) const;

  std::string text_;
  bool marks_last_character_ = true;
  std::unordered_map<std::string, std::size_t> ranks_;  // maps "LEFT RIGHT" to the number of its line
  std::unordered_map<std::string, std::vector<std::string>> seen_;
};

// Joins "res@@ um@@ ption of" to "resumption of" like fairseq's --remove-bpe: removes each "@@ " and final blanks.
std::string remove_bpe(const std::string& line);

}  // namespace foldgrad
