#include "train/tasks/translation/bleu.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "engine/check.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

constexpr std::size_t kBleuOrders = 4, kChrfOrders = 6;

// Numbers of n-grams in all lines; index n - 1 is for order n.
struct NGramCounts {
  std::int64_t hypothesis[kChrfOrders] = {}, reference[kChrfOrders] = {}, match[kChrfOrders] = {};
};

std::unordered_map<std::u32string_view, std::int64_t> ngrams(std::u32string_view line, std::size_t order) {
  std::unordered_map<std::u32string_view, std::int64_t> counts;
  for (std::size_t i = 0; i + order <= line.size(); ++i) ++counts[line.substr(i, order)];
  return counts;
}

// Adds a line, given as characters or as numbers that stand for words. With `both`, skips orders for which the
// reference has no n-grams.
void add_line(NGramCounts& counts, std::u32string_view hypothesis, std::u32string_view reference, std::size_t orders,
              bool both) {
  for (std::size_t n = 0; n < orders; ++n) {
    const auto wanted = ngrams(reference, n + 1);
    if (both && wanted.empty()) continue;
    for (const auto& [gram, count] : wanted) counts.reference[n] += count;
    for (const auto& [gram, count] : ngrams(hypothesis, n + 1)) {
      counts.hypothesis[n] += count;
      if (const auto found = wanted.find(gram); found != wanted.end())
        counts.match[n] += std::min(count, found->second);
    }
  }
}

NGramCounts count_words(const Lines& hypotheses, const Lines& references, const auto& split) {
  NGramCounts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    std::unordered_map<std::string, char32_t> numbers;
    const auto numbered = [&](const std::string& line) {
      std::u32string all;
      for (const std::string& word : split(line)) all += numbers.emplace(word, char32_t(numbers.size())).first->second;
      return all;
    };
    add_line(counts, numbered(hypotheses[i]), numbered(references[i]), kBleuOrders, /*both=*/false);  // [BLEU-1]
  }
  return counts;
}

Bleu with_lengths(const NGramCounts& counts) {
  Bleu bleu;
  bleu.hyp_len = counts.hypothesis[0];
  bleu.ref_len = counts.reference[0];
  const double h = double(bleu.hyp_len), r = double(bleu.ref_len);
  bleu.brevity_penalty = h >= r ? 1 : h > 0 ? std::exp(1 - r / h) : 0;  // [BLEU-2]
  bleu.ratio = r > 0 ? h / r : 0;
  return bleu;
}

// Takes -9999999999 for the logarithm of 0, like the original programs, which makes the score 0.
double geometric_mean(const std::array<double, 4>& p) {
  double sum = 0;
  for (const double one : p) sum += one > 0 ? std::log(one) : -9999999999.0;
  return std::exp(sum / 4);
}

std::vector<std::string> split_ascii(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::u32string characters_of(const std::string& line) {
  std::u32string text = decode_utf8(line);
  std::erase_if(text, is_space);
  return text;
}

double f_score(const NGramCounts& counts) {
  constexpr double kBetaSquared = 4;
  double precision = 0, recall = 0;
  int orders = 0;
  for (std::size_t n = 0; n < kChrfOrders; ++n) {
    if (counts.hypothesis[n] == 0 || counts.reference[n] == 0) continue;
    precision += double(counts.match[n]) / double(counts.hypothesis[n]);  // [CHRF-1]
    recall += double(counts.match[n]) / double(counts.reference[n]);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;  // [CHRF-2]
  recall /= orders;
  return 100 * (1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall);  // [CHRF-3]
}

void check_lines(const char* score, const Lines& hypotheses, const Lines& references) {
  FOLDGRAD_CHECK(hypotheses.size() == references.size(),
                 "{}: hypotheses and references must have the same number of lines, got {} and {}", score,
                 hypotheses.size(), references.size());
  FOLDGRAD_CHECK(!hypotheses.empty(), "{}: there must be at least one line, got 0", score);
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    for (const auto& [side, lines] : {std::pair("hypotheses", &hypotheses), {"references", &references}})
      FOLDGRAD_CHECK(first_bad_utf8((*lines)[i]) == std::string::npos, "{}: line {} of the {} is not UTF-8", score,
                     i + 1, side);
}

// Works on bytes, since tokenize_13a() looks only for ASCII. tokenize_13a() treats the bytes of a non-ASCII character
// as it would treat the character.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

// Puts a space between two matching characters, and `before` and `after` around them. As in Python's re.sub with a
// two-character pattern, matches do not overlap.
std::string around_pairs(const std::string& text, const char* before, const char* after, const auto& matches) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      result.append(before).append(1, text[i]).append(" ").append(1, text[i + 1]).append(after);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string around_symbols(const std::string& text) {
  std::string result;
  for (const char c : text) result += is_symbol(c) ? std::string{' ', c, ' '} : std::string(1, c);
  return result;
}

}  // namespace

std::string tokenize_13a(const std::string& line) {
  std::string text = line;
  constexpr std::string_view kReplaced[][2] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                                               {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [from, to] : kReplaced) replace_all(text, from, to);
  text = around_symbols(' ' + text + ' ');
  text = around_pairs(text, "", " ", [](char a, char b) { return !is_digit(a) && is_stop(b); });
  text = around_pairs(text, " ", "", [](char a, char b) { return is_stop(a) && !is_digit(b); });
  text = around_pairs(text, "", " ", [](char a, char b) { return is_digit(a) && b == '-'; });
  return fmt::format("{}", fmt::join(split_words(text), " "));
}

Bleu multi_bleu(const Lines& hypotheses, const Lines& references) {
  check_lines("multi_bleu", hypotheses, references);
  const NGramCounts counts = count_words(hypotheses, references, split_ascii);
  if (counts.reference[0] == 0)  // the original program prints this for any hypotheses
    return {.text = "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"};
  Bleu bleu = with_lengths(counts);
  std::array<double, 4>& p = bleu.precisions;
  for (int n = 0; n < 4; ++n) p[n] = counts.hypothesis[n] ? double(counts.match[n]) / double(counts.hypothesis[n]) : 0;
  bleu.score = 100 * bleu.brevity_penalty * geometric_mean(p);  // [BLEU-3]
  for (double& one : p) one *= 100;
  bleu.text =
      fmt::format("BLEU = {:.2f}, {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP={:.3f}, ratio={:.3f}, hyp_len={}, ref_len={})",
                  bleu.score, p[0], p[1], p[2], p[3], bleu.brevity_penalty, bleu.ratio, bleu.hyp_len, bleu.ref_len);
  return bleu;
}

Bleu sacre_bleu(const Lines& hypotheses, const Lines& references) {
  check_lines("sacre_bleu", hypotheses, references);
  const NGramCounts counts =
      count_words(hypotheses, references, [](const std::string& line) { return split_words(tokenize_13a(line)); });
  Bleu bleu = with_lengths(counts);
  std::array<double, 4>& p = bleu.precisions;
  if (counts.match[0] > 0) {  // a match of any order implies one of order 1
    double smooth = 1;
    for (int n = 0; n < 4 && counts.hypothesis[n] > 0; ++n) {
      if (counts.match[n] == 0) smooth *= 2;  // [BLEU-4]
      p[n] = 100 * (counts.match[n] ? double(counts.match[n]) : 1 / smooth) / double(counts.hypothesis[n]);
    }
    bleu.score = bleu.brevity_penalty * geometric_mean(p);
  }
  bleu.text =
      fmt::format("BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                  bleu.score, p[0], p[1], p[2], p[3], bleu.brevity_penalty, bleu.ratio, bleu.hyp_len, bleu.ref_len);
  bleu.signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp";
  return bleu;
}

ChrF chrf(const Lines& hypotheses, const Lines& references) {
  check_lines("chrf", hypotheses, references);
  NGramCounts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    add_line(counts, characters_of(hypotheses[i]), characters_of(references[i]), kChrfOrders, /*both=*/true);
  ChrF result;
  result.score = f_score(counts);
  result.text = fmt::format("chrF2 = {:.2f}", result.score);
  result.signature = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no";
  return result;
}

double exact_match(const Lines& hypotheses, const Lines& references) {
  check_lines("exact_match", hypotheses, references);
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) equal += hypotheses[i] == references[i];
  return 100 * double(equal) / double(hypotheses.size());
}

}  // namespace foldgrad
