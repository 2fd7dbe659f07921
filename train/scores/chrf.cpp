#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "train/scores/bleu.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

constexpr std::size_t kOrders = 6;

struct CharacterCounts {
  std::int64_t hypothesis[kOrders] = {}, reference[kOrders] = {}, match[kOrders] = {};
};

std::u32string characters(const std::string& line) {
  std::u32string text = decode_utf8(line);
  text.erase(std::remove_if(text.begin(), text.end(), is_space), text.end());
  return text;
}

std::unordered_map<std::u32string_view, std::int64_t> ngrams(std::u32string_view text, std::size_t order) {
  std::unordered_map<std::u32string_view, std::int64_t> counts;
  for (std::size_t i = 0; i + order <= text.size(); ++i) ++counts[text.substr(i, order)];
  return counts;
}

void add_line(CharacterCounts& counts, const std::u32string& hypothesis, const std::u32string& reference) {
  for (std::size_t order = 1; order <= kOrders; ++order) {
    const auto wanted = ngrams(reference, order);
    if (wanted.empty()) continue;
    for (const auto& [gram, count] : wanted) counts.reference[order - 1] += count;
    for (const auto& [gram, count] : ngrams(hypothesis, order)) {
      counts.hypothesis[order - 1] += count;
      if (const auto found = wanted.find(gram); found != wanted.end())
        counts.match[order - 1] += std::min(count, found->second);
    }
  }
}

double f_score(const CharacterCounts& counts) {
  constexpr double kBetaSquared = 4;
  double precision = 0, recall = 0;
  int orders = 0;
  for (std::size_t n = 0; n < kOrders; ++n) {
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

}  // namespace

ChrF chrf(const Lines& hypotheses, const Lines& references) {
  check_lines("chrf", hypotheses, references);
  CharacterCounts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    add_line(counts, characters(hypotheses[i]), characters(references[i]));
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
