#include "train/scores/bleu.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <unordered_map>

#include "engine/check.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

struct Counts {
  std::int64_t correct[4] = {}, total[4] = {}, hyp_len = 0, ref_len = 0;
};

using NGrams = std::unordered_map<std::string, std::int64_t>;

NGrams ngrams(const std::vector<std::string>& words, std::size_t order) {
  NGrams counts;
  for (std::size_t i = 0; i + order <= words.size(); ++i) {
    std::string key = words[i];
    for (std::size_t k = 1; k < order; ++k) key.append(1, ' ').append(words[i + k]);
    ++counts[key];
  }
  return counts;
}

void add_line(Counts& counts, const std::vector<std::string>& hypothesis, const std::vector<std::string>& reference) {
  counts.hyp_len += std::int64_t(hypothesis.size());
  counts.ref_len += std::int64_t(reference.size());
  for (std::size_t order = 1; order <= 4; ++order) {
    const NGrams wanted = ngrams(reference, order);
    for (const auto& [gram, count] : ngrams(hypothesis, order)) {
      counts.total[order - 1] += count;  // [BLEU-1]
      if (const auto found = wanted.find(gram); found != wanted.end())
        counts.correct[order - 1] += std::min(count, found->second);
    }
  }
}

Bleu with_lengths(const Counts& counts) {
  Bleu bleu;
  bleu.hyp_len = counts.hyp_len;
  bleu.ref_len = counts.ref_len;
  const double h = double(counts.hyp_len), r = double(counts.ref_len);
  bleu.brevity_penalty = h >= r ? 1 : h > 0 ? std::exp(1 - r / h) : 0;  // [BLEU-2]
  bleu.ratio = r > 0 ? h / r : 0;
  return bleu;
}

// The originals' logarithm of 0, which makes the score 0.
double log_or_low(double x) { return x > 0 ? std::log(x) : -9999999999.0; }

double geometric_mean(const std::array<double, 4>& p) {
  double sum = 0;
  for (const double one : p) sum += log_or_low(one);
  return std::exp(sum / 4);
}

std::vector<std::string> split_ascii(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> words_13a(const std::string& line, Case letters) {
  return split_words(tokenize_13a(letters == Case::lower ? lower(line) : line));
}

}  // namespace

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

Bleu multi_bleu(const Lines& hypotheses, const Lines& references) {
  check_lines("multi_bleu", hypotheses, references);
  Counts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    add_line(counts, split_ascii(hypotheses[i]), split_ascii(references[i]));
  Bleu bleu = with_lengths(counts);
  if (bleu.ref_len == 0) {  // as the original prints, whatever the hypotheses are
    bleu = Bleu{};
    bleu.text = "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)";
    return bleu;
  }
  std::array<double, 4>& p = bleu.precisions;
  for (int n = 0; n < 4; ++n) p[n] = counts.total[n] ? double(counts.correct[n]) / double(counts.total[n]) : 0;
  bleu.score = 100 * bleu.brevity_penalty * geometric_mean(p);  // [BLEU-3]
  for (double& one : p) one *= 100;
  bleu.text =
      fmt::format("BLEU = {:.2f}, {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP={:.3f}, ratio={:.3f}, hyp_len={}, ref_len={})",
                  bleu.score, p[0], p[1], p[2], p[3], bleu.brevity_penalty, bleu.ratio, bleu.hyp_len, bleu.ref_len);
  return bleu;
}

Bleu sacre_bleu(const Lines& hypotheses, const Lines& references, Case letters) {
  check_lines("sacre_bleu", hypotheses, references);
  Counts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    add_line(counts, words_13a(hypotheses[i], letters), words_13a(references[i], letters));
  Bleu bleu = with_lengths(counts);
  std::array<double, 4>& p = bleu.precisions;
  if (counts.correct[0] > 0) {  // a match of any order implies one of order 1
    double smooth = 1;
    for (int n = 0; n < 4 && counts.total[n] > 0; ++n) {
      if (counts.correct[n] == 0) smooth *= 2;  // [BLEU-4]
      p[n] = 100 * (counts.correct[n] ? double(counts.correct[n]) : 1 / smooth) / double(counts.total[n]);
    }
    bleu.score = bleu.brevity_penalty * geometric_mean(p);
  }
  bleu.text =
      fmt::format("BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                  bleu.score, p[0], p[1], p[2], p[3], bleu.brevity_penalty, bleu.ratio, bleu.hyp_len, bleu.ref_len);
  bleu.signature = fmt::format("nrefs:1|case:{}|eff:no|tok:13a|smooth:exp", letters == Case::lower ? "lc" : "mixed");
  return bleu;
}

}  // namespace foldgrad
