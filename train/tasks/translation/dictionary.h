// The vocabulary of a model, in fairseq's format and with fairseq's ids. Each line of dict.txt is "WORD COUNT". A
// word's id is its line number, counted from 0, plus 4, since ids 0 ... 3 are special. Words "madeupword0000 0", ...
// pad the size to a multiple of 8.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/transformer/ids.h"

namespace foldgrad {

class Dictionary {
 public:
  // Throws FileError, which names the line, for a missing count, a count that is not a number, or a repeated word.
  static Dictionary read(const std::string& path);
  // Makes a dictionary of the words of all lines, the most frequent first and equally frequent words in the order of
  // their bytes, as fairseq-preprocess does.
  static Dictionary of_lines(const std::vector<std::string>& lines);
  // Returns the dictionary that of_lines() would make of the lines of both dictionaries.
  static Dictionary joined(const Dictionary& a, const Dictionary& b);
  // Makes a dictionary of `words` in order, each with count 0.
  static Dictionary of_words(const std::vector<std::string>& words);

  std::string text() const;  // the content of dict.txt, including the padding words

  std::int64_t size() const { return std::int64_t(words_.size()); }
  std::int64_t id(const std::string& word) const;  // returns kUnk for an unknown word
  const std::string& word(std::int64_t id) const;  // throws std::invalid_argument unless 0 <= id < size()

  // Splits the line at white space and returns the ids of the words, then kEos.
  Ids encode(const std::string& line) const;
  // Returns the words up to the first kEos, joined by single spaces, without kBos and kPad; kUnk becomes "<unk>".
  std::string decode(const Ids& ids) const;

 private:
  struct Entry {
    std::string word;
    std::int64_t count;
  };
  Dictionary();
  static Dictionary sorted(const std::map<std::string, std::int64_t>& counts);
  bool add(const std::string& word, std::int64_t count);  // returns false if the word already exists
  void fill_up();

  std::vector<Entry> words_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace foldgrad
