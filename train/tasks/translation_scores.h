// Scores of translations, as the log has them.
#pragma once
#include "train/data/text/parallel_text.h"
#include "train/loop/task.h"
#include "train/scores/bleu.h"
#include "train/scores/chrf.h"
#include "train/tasks/evaluation.h"

namespace foldgrad {

struct TranslationScores {
  ValidationLoss loss;
  Bleu sacre, tokenized;  // sacreBLEU with 13a; multi-bleu on the words as they stand in the lines
  ChrF chrf;
  double exact = 0;  // percent of lines

  // BLEU decides. Without samples.
  Validation validation() const;
};

TranslationScores score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references);

// RUN/samples/step-*.txt: source, reference and hypothesis of up to ten sentences, the same at every validation.
std::string samples_text(const ParallelText& text, const Lines& hypotheses);

}  // namespace foldgrad
