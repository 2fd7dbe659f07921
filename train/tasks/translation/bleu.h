// BLEU (Papineni, Roukos, Ward, Zhu 2002) as multi-bleu.perl and sacreBLEU compute it. The two programs split text into
// words differently and treat n-gram orders without a match differently, so always say which program's score you
// report.
//
//   [BLEU-1]  p_n = sum over lines and n-grams g of min(count of g in the hypothesis, count of g in the reference)
//                   / number of n-grams of all hypotheses,   n = 1 ... 4
//   [BLEU-2]  BP = 1 when h >= r, otherwise exp(1 - r / h);  h, r: words of all hypotheses, of all references
//   [BLEU-3]  BLEU = 100 BP (p_1 p_2 p_3 p_4)^(1/4)
//   [BLEU-4]  sacreBLEU's smoothing "exp": the k-th order that has n-grams but no match counts 1 / (2^k total)
//
// All scores below throw std::invalid_argument if the numbers of lines differ or are 0, or if a line is not UTF-8.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "train/data/lines.h"

namespace foldgrad {

struct Bleu {
  double score = 0;                    // from 0 to 100
  std::array<double, 4> precisions{};  // from 0 to 100
  double brevity_penalty = 0;
  double ratio = 0;  // hyp_len / ref_len
  std::int64_t hyp_len = 0, ref_len = 0;
  std::string text = {};       // the line that multi-bleu.perl or sacreBLEU prints
  std::string signature = {};  // sacreBLEU's signature without the version; empty for multi-bleu
};

// Returns the score of Moses' multi-bleu.perl with one reference: words are separated by ASCII white space and keep
// their case. The original divides by zero if all hypotheses are empty; here the score is 0.
Bleu multi_bleu(const Lines& hypotheses, const Lines& references);

// Returns the score of sacreBLEU 2 with one reference: tokenizer 13a, smoothing exp, no effective order.
Bleu sacre_bleu(const Lines& hypotheses, const Lines& references);

// Returns the tokens of sacreBLEU's tokenizer 13a, which follows NIST's mteval-v13a.pl, separated by spaces.
std::string tokenize_13a(const std::string& line);

// chrF (Popovic 2015) as sacreBLEU 2 computes it by default: chrF2, of characters without white space.
//
//   [CHRF-1]  P_n, R_n: matching n-grams of characters of all lines over those of the hypotheses, of the references;
//             if the reference of a line has none, those of its hypothesis are not counted
//   [CHRF-2]  P, R: means of P_n and R_n over the orders n = 1 ... 6 that both sides have
//   [CHRF-3]  chrF = 100 (1 + beta^2) P R / (beta^2 P + R), beta = 2; 0 when P + R = 0
struct ChrF {
  double score = 0;       // from 0 to 100
  std::string text;       // the line that sacreBLEU prints
  std::string signature;  // the signature without the version
};

ChrF chrf(const Lines& hypotheses, const Lines& references);

// Returns the percentage of lines that are equal to their reference, byte for byte.
double exact_match(const Lines& hypotheses, const Lines& references);

}  // namespace foldgrad
