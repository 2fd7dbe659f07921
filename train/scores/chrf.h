// chrF (Popovic 2015) as sacreBLEU 2 computes it by default: chrF2, of characters without white space.
//
//   [CHRF-1]  P_n, R_n: matching n-grams of characters of all lines over those of the hypotheses, of the references;
//             where the reference of a line has none, those of its hypothesis are not counted
//   [CHRF-2]  P, R: means of P_n and R_n over the orders n = 1 ... 6 that both sides have
//   [CHRF-3]  chrF = 100 (1 + beta^2) P R / (beta^2 P + R), beta = 2; 0 when P + R = 0
#pragma once
#include <string>

#include "train/scores/bleu.h"

namespace foldgrad {

struct ChrF {
  double score = 0;       // 0 ... 100
  std::string text;       // the line that sacreBLEU prints
  std::string signature;  // without its version
};

ChrF chrf(const Lines& hypotheses, const Lines& references);

// The share of lines, in percent, that equal their reference byte by byte.
double exact_match(const Lines& hypotheses, const Lines& references);

}  // namespace foldgrad
