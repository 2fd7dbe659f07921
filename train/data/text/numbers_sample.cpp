#include <chrono>
#include <unordered_set>

#include "engine/check.h"
#include "engine/philox.h"
#include "train/data/text/numbers.h"

namespace foldgrad::numbers {
namespace {

// FNV-1a, 64 bits.
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return h;
}

struct Pair {
  std::string german, english;
  bool common = false;  // always for training
};

class Draws {
 public:
  explicit Draws(Random random) : random_(random) {}

  // Draws a number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const PhiloxWords words = random_.block(block_++);
    const std::uint64_t bits = std::uint64_t(words.word[0]) << 32 | words.word[1];
    return low + std::int64_t(bits % std::uint64_t(high - low + 1));
  }
  // Draws a number of 1 to `most` digits, each length as likely.
  std::int64_t number(int most) {
    std::int64_t end = 10;
    for (std::int64_t digits = between(1, most); digits > 1; --digits) end *= 10;
    return between(end == 10 ? 0 : end / 10, end - 1);
  }

  Pair pair() {
    switch (between(0, 9)) {
      case 0: {
        const std::int64_t n = std::max<std::int64_t>(1, number(6));
        return {german_ordinal(n), english_ordinal(n), n < 100};
      }
      case 1: {
        const std::int64_t whole = number(6);
        std::string digits;
        for (std::int64_t more = between(0, 3); more > 0; --more) digits += char('0' + between(0, 9));
        digits += char('0' + between(1, 9));  // no other digits mean the same number
        return {german_decimal(whole, digits), english_decimal(whole, digits)};
      }
      case 2: {
        Date date{int(between(1800, 2099)), int(between(1, 12)), 0};
        const auto month = std::chrono::year(date.year) / date.month;
        date.day = int(between(1, unsigned((month / std::chrono::last).day())));
        return {german_date(date), english_date(date)};
      }
      default: {
        const std::int64_t n = number(9);
        return {german_cardinal(n), english_cardinal(n), n < 100};
      }
    }
  }

 private:
  Random random_;
  std::uint64_t block_ = 0;
};

Split split_of(const Pair& pair) {
  const std::uint64_t part = hash(pair.german) % 20;
  return pair.common || part > 1 ? Split::train : part == 0 ? Split::valid : Split::test;
}

}  // namespace

ParallelText sample(Split split, std::int64_t pairs, std::uint64_t seed) {
  FOLDGRAD_CHECK(pairs >= 1 && pairs <= 1'000'000, "numbers: a sample must have 1 to 1000000 pairs, got {}", pairs);
  Draws draws({.seed = seed, .stream = std::uint32_t(hash("numbers")) + std::uint32_t(split), .step = 0});
  std::unordered_set<std::string> taken;
  ParallelText text;
  while (std::int64_t(text.source.size()) < pairs) {
    Pair pair = draws.pair();
    if (split_of(pair) != split || !taken.insert(pair.german).second) continue;
    text.source.push_back(std::move(pair.german));
    text.target.push_back(std::move(pair.english));
  }
  return text;
}

}  // namespace foldgrad::numbers
