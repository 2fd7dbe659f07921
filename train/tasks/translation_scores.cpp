#include "train/tasks/translation_scores.h"

#include <fmt/format.h>

namespace foldgrad {

constexpr std::size_t kSamples = 10;

TranslationScores score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references) {
  return {loss, sacre_bleu(hypotheses, references), multi_bleu(hypotheses, references), chrf(hypotheses, references),
          exact_match(hypotheses, references)};
}

Validation TranslationScores::validation() const {
  return {.loss = loss.loss,
          .deciding = sacre.score,
          .scores = {{"loss", loss.loss},
                     {"perplexity", loss.perplexity},
                     {"bleu", sacre.score},
                     {"tokenized_bleu", tokenized.score},
                     {"chrf", chrf.score},
                     {"exact", exact}},
          .notes = {{"bleu_signature", sacre.signature},
                    {"tokenized_bleu_text", tokenized.text},
                    {"chrf_signature", chrf.signature}},
          .text = fmt::format(
              "loss {:.4f}, perplexity {:.3f}, BLEU {:.2f} ({}), tokenized {}, chrF2 {:.2f}, exact {:.1f} %", loss.loss,
              loss.perplexity, sacre.score, sacre.signature, tokenized.text, chrf.score, exact),
          .short_text = fmt::format("loss {:.4f}  ppl {:.2f}  BLEU {:.2f}  chrF {:.1f}  exact {:.1f} %", loss.loss,
                                    loss.perplexity, sacre.score, chrf.score, exact),
          .signatures = fmt::format("BLEU is sacreBLEU {}, chrF is {}; all scores are in log.jsonl", sacre.signature,
                                    chrf.signature)};
}

std::string samples_text(const ParallelText& text, const Lines& hypotheses) {
  std::string all;
  const std::size_t count = hypotheses.size(), shown = std::min(kSamples, count);
  for (std::size_t k = 0; k < shown; ++k) {
    const std::size_t i = k * count / shown;  // spread over the text
    all += fmt::format("source      {}\nreference   {}\nhypothesis  {}\n\n", text.source[i], text.target[i],
                       hypotheses[i]);
  }
  return all;
}

}  // namespace foldgrad
