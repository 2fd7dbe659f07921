#include "engine/check.h"
#include "train/scores/bleu.h"
#include "train/system/unicode.h"

namespace foldgrad {

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

}  // namespace foldgrad
