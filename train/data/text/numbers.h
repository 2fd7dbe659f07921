// The embedded task: German number words to English ones, made by rule, so that a model can be trained and scored with
// no file at all. "am einundzwanzigsten Mai neunzehnhundertfünf" -> "on the twenty-first of May nineteen oh five".
//
// 70 % of a sample are whole numbers, 10 % each are ordinals, decimals and dates. The number of digits is
// drawn first, so short numbers are as frequent as long ones.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "train/data/lines.h"

namespace foldgrad::numbers {

// Return the words of a number, for sample(), which keeps to the ranges; outside of them the result is undefined.
//
// Take n in [0, 999,999,999]: "einundzwanzig", "eintausendzweihundert", "eine Million zwei"; "twenty-one", "one
// thousand and one".
std::string german_cardinal(std::int64_t n);
std::string english_cardinal(std::int64_t n);
// Take n in [1, 999,999], and give no article: "einundzwanzigste", "twenty-first".
std::string german_ordinal(std::int64_t n);
std::string english_ordinal(std::int64_t n);
// Take whole in [0, 999,999,999], digits after the point: (3, "14") -> "drei Komma eins vier", "three point one four".
std::string german_decimal(std::int64_t whole, const std::string& digits);
std::string english_decimal(std::int64_t whole, const std::string& digits);
// A day that exists, in 1800 to 2099: "am dritten Mai zweitausendzehn", "on the third of May twenty ten".
struct Date {
  int year, month, day;
};
std::string german_date(Date date);
std::string english_date(Date date);

enum class Split { train, valid, test };

// Draws `pairs` different pairs, the same for the same arguments. A pair can appear in one split only, which a hash of
// its German side decides, whatever the seed: 5 % of all belong to valid, 5 % to test. Whole numbers and ordinals below
// 100 are always for training, so that each word is learned. Throws std::invalid_argument for less than 1 pair or more
// than 1,000,000.
ParallelText sample(Split split, std::int64_t pairs, std::uint64_t seed = 1);
// Numbers of pairs to train on, and to validate or test on, unless a configuration says otherwise.
constexpr std::int64_t kTrainPairs = 200000, kTestPairs = 1000;
constexpr std::int64_t kMostPairs = 1'000'000;  // of a sample

// Cuts words into parts that carry meaning, with "@@" as in byte pair encoding: "ein@@ und@@ zwan@@ zig@@ ste",
// "twenty-@@ first"; remove_bpe joins them again. A model has to reorder and recombine these parts, but need not learn
// to spell, and a sentence takes 4 to 25 of them where it takes 10 to 110 letters: minutes on a CPU are enough. Other
// text stays whole, and is unknown to the dictionary.
std::string cut(const std::string& text);
// Returns all that cut() makes of German and English number words, for Dictionary::of_words.
std::vector<std::string> vocabulary();

}  // namespace foldgrad::numbers
