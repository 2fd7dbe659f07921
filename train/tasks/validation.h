// A model's scores on the validation text.
#pragma once
#include <nlohmann/json.hpp>

#include "train/config/config.h"
#include "train/data/text/parallel_text.h"
#include "train/scores/bleu.h"
#include "train/scores/chrf.h"
#include "train/tasks/evaluation.h"

namespace foldgrad {

struct Validation {
  ValidationLoss loss;
  Bleu sacre, tokenized;  // sacreBLEU with 13a; multi-bleu on the words as they stand in the lines
  ChrF chrf;
  double exact = 0;  // percent of lines

  // Of best checkpoints and patience: larger is better.
  double score() const { return sacre.score; }
  std::string text() const;        // one line, each score with what it is
  std::string short_text() const;  // for a terminal, which has been told the signatures
  std::string signatures() const;
  nlohmann::ordered_json event(std::int64_t step) const;
};

Validation score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references);

// RUN/samples/step-*.txt: source, reference and hypothesis of up to ten sentences, the same at every validation.
std::string samples_text(const ParallelText& text, const Lines& hypotheses);

}  // namespace foldgrad
