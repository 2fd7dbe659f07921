// Damages files as accidents or attackers might, to test the code that reads files.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace foldgrad::testing {

class Mutator {
 public:
  // Equal seeds give equal mutants on every machine.
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  // Returns a number in [0, n).
  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

  // Makes one to four changes of bytes: flips a bit, overwrites one byte or up to eight, deletes, repeats or inserts a
  // piece, or truncates the text.
  std::string bytes(std::string text);
  // Makes one to four changes, mostly of words and lines: replaces or inserts a word, deletes, copies or swaps lines,
  // makes a line very long, or nests values deeply. One change in eight is of bytes.
  std::string words(std::string text);
  // Changes words of the header of a safetensors file (and corrects the header's length), bits of values, or bytes
  // anywhere.
  std::string safetensors(const std::string& file);

 private:
  std::size_t some() { return 1 + below(2) * below(4); }
  void change_bytes(std::string& text);
  void change_words(std::string& text);
  void change_lines(std::string& text);

  std::mt19937_64 random_;
};

}  // namespace foldgrad::testing
