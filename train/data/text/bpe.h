// Byte pair encoding (Sennrich, Haddow, Birch 2016) as `subword-nmt apply-bpe` 0.3 does it: a word starts as its
// characters, the last one marked with "</w>"; again and again the pair that comes first in the file of codes is merged
// wherever it stands, from left to right; pieces but the last of a word get the separator "@@".
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

namespace foldgrad {

class Bpe {
 public:
  // Reads a file as `subword-nmt learn-bpe` writes it: "#version: 0.2", then one pair a line, the most frequent first.
  // Without the first line it is of version 0.1, where "</w>" is a piece of its own at first. Throws FileError naming
  // the line.
  explicit Bpe(const std::string& codes_path);

  // Cuts "resumption of" into "res@@ um@@ ption of". Blanks at both ends are kept, those between words become one.
  // Remembers words, so one object is not for several threads. Throws std::invalid_argument for text that is not UTF-8.
  std::string apply(const std::string& line);

  const std::string& text() const { return text_; }  // the content of the file

 private:
  const std::vector<std::string>& pieces(const std::string& word);
  std::vector<std::string> merged(std::vector<std::string> symbols) const;

  std::string text_;
  bool marks_last_character_ = true;
  std::unordered_map<std::string, std::size_t> ranks_;  // "LEFT RIGHT" -> line
  std::unordered_map<std::string, std::vector<std::string>> seen_;
};

// Joins "res@@ um@@ ption of" to "resumption of", as fairseq's --remove-bpe does it: "@@ " vanishes wherever it stands,
// and blanks at the end.
std::string remove_bpe(const std::string& line);

}  // namespace foldgrad
