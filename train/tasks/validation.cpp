#include "train/tasks/validation.h"

#include <fmt/format.h>

namespace foldgrad {
namespace {

constexpr std::size_t kSamples = 10;

}  // namespace

Validation score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references) {
  return {loss, sacre_bleu(hypotheses, references), multi_bleu(hypotheses, references), chrf(hypotheses, references),
          exact_match(hypotheses, references)};
}

std::string Validation::text() const {
  return fmt::format("loss {:.4f}, perplexity {:.3f}, BLEU {:.2f} ({}), tokenized {}, chrF2 {:.2f}, exact {:.1f} %",
                     loss.loss, loss.perplexity, sacre.score, sacre.signature, tokenized.text, chrf.score, exact);
}

std::string Validation::short_text() const {
  return fmt::format("loss {:.4f}  ppl {:.2f}  BLEU {:.2f}  chrF {:.1f}  exact {:.1f} %", loss.loss, loss.perplexity,
                     sacre.score, chrf.score, exact);
}

std::string Validation::signatures() const {
  return fmt::format("BLEU is sacreBLEU {}, chrF is {}; all scores are in log.jsonl", sacre.signature, chrf.signature);
}

nlohmann::ordered_json Validation::event(std::int64_t step) const {
  return {{"event", "validate"},
          {"step", step},
          {"loss", loss.loss},
          {"perplexity", loss.perplexity},
          {"bleu", sacre.score},
          {"bleu_signature", sacre.signature},
          {"tokenized_bleu", tokenized.score},
          {"tokenized_bleu_text", tokenized.text},
          {"chrf", chrf.score},
          {"chrf_signature", chrf.signature},
          {"exact", exact}};
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
