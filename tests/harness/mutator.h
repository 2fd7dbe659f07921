// Damages files as accidents and attackers do, deterministically, to test the code that reads files.
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

  // Makes one to four changes of bytes: flips bits, writes other values or integers of 8 bytes, or cuts out, doubles or
  // inserts pieces.
  std::string bytes(std::string text);
  // Makes one to four changes of words: replaces numbers, strings and brackets, drops, doubles or swaps lines, or nests
  // values deeply. Now and then also changes bytes.
  std::string words(std::string text);
  // Changes words of a safetensors file's header (and corrects its length), bits of values, or bytes anywhere.
  std::string safetensors(const std::string& file);

 private:
  std::size_t some() { return 1 + below(2) * below(4); }
  void change_bytes(std::string& text);
  void change_words(std::string& text);
  void change_lines(std::string& text);

  std::mt19937_64 random_;
};

}  // namespace foldgrad::testing
