// The built-in task: translating German number words into English. The text is generated, so a model can be trained and
// scored without any files. For example, "am einundzwanzigsten Mai neunzehnhundertfünf" is translated into "on the
// twenty-first of May nineteen oh five".
//
// 70 % of the generated numbers are cardinals; ordinals, decimals and dates make up 10 % each. The number of digits is
// drawn first, so short numbers are as frequent as long ones.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "train/data/lines.h"

namespace foldgrad::numbers {

// Return the words of a number. Outside of the ranges below, which sample() respects, the result is undefined.
//
// Take n in [0, 999,999,999]: "einundzwanzig", "eintausendzweihundert", "eine Million zwei"; "twenty-one", "one
// thousand and one".
std::string german_cardinal(std::int64_t n);
std::string english_cardinal(std::int64_t n);
// Take n in [1, 999,999], and return it without an article: "einundzwanzigste", "twenty-first".
std::string german_ordinal(std::int64_t n);
std::string english_ordinal(std::int64_t n);
// Take the whole part in [0, 999,999,999] and the digits after the point: (3, "14") gives "drei Komma eins vier",
// "three point one four".
std::string german_decimal(std::int64_t whole, const std::string& digits);
std::string english_decimal(std::int64_t whole, const std::string& digits);
// An existing day from 1800 to 2099: "am dritten Mai zweitausendzehn", "on the third of May twenty ten".
struct Date {
  int year, month, day;
};
std::string german_date(Date date);
std::string english_date(Date date);

enum class Split { train, valid, test };

// Draws `pairs` different pairs, which depend only on the arguments. Each pair is assigned to a split by a hash of its
// German side, regardless of the seed: 5 % to valid, 5 % to test, the rest to train. Cardinals and ordinals below 100
// are always in train, so that every word can be learned. Throws std::invalid_argument unless 1 <= pairs <= kMostPairs.
ParallelText sample(Split split, std::int64_t pairs, std::uint64_t seed = 1);
// Default numbers of pairs for training, and for validation or test.
constexpr std::int64_t kTrainPairs = 200000, kTestPairs = 1000;
constexpr std::int64_t kMostPairs = 1'000'000;  // largest number of pairs in a sample

// Splits words into meaningful parts, with "@@" as in byte pair encoding: "ein@@ und@@ zwan@@ zig@@ ste", "twenty-@@
// first"; remove_bpe joins them again. A model has to reorder and recombine these parts, but need not learn to spell. A
// sentence has 4 to 25 parts instead of 10 to 110 letters, so training takes only minutes on a CPU. Other words stay
// whole, and the dictionary does not contain them.
std::string cut(const std::string& text);
// Returns all parts that cut() makes of German and English number words, for Dictionary::of_words.
std::vector<std::string> vocabulary();

}  // namespace foldgrad::numbers
