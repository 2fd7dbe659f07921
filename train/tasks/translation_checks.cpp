#include "train/tasks/translation_checks.h"

#include <algorithm>
#include <cmath>

#include "models/fold/difference.h"
#include "models/transformer/beam_search.h"
#include "train/checks/model_checks.h"

namespace foldgrad {
namespace {

template <class T>
Tensor cut_out(const Tensor& t, std::int64_t first, std::int64_t rows, std::int64_t extra, T filler) {
  const std::int64_t columns = t.shape()[1];
  const Tensor part = Tensor::full({rows, columns + extra}, double(filler), t.dtype());
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(t.data<T>() + (first + r) * columns, columns, part.data<T>() + r * (columns + extra));
  return part;
}

// Some sentences of a batch, followed by columns of padding.
TranslationBatch part(const TranslationBatch& batch, std::int64_t first, std::int64_t rows, std::int64_t extra,
                      std::int64_t pad) {
  const auto ids = [&](const Tensor& t) { return cut_out<std::int64_t>(t, first, rows, extra, pad); };
  const auto mask = [&](const Tensor& t) { return cut_out<std::uint8_t>(t, first, rows, extra, 0); };
  return {ids(batch.source), mask(batch.source_mask), ids(batch.input), mask(batch.input_mask), ids(batch.target)};
}

// The first columns of one sentence's logits.
Tensor logits_at(const Tensor& logits, std::int64_t sentence, std::int64_t columns) {
  return logits.slice(sentence, sentence + 1).reshape({logits.shape()[1], logits.shape()[2]}).slice(0, columns);
}

// The largest difference, sentence by sentence, relative to the greatest logit of all.
class Worst {
 public:
  explicit Worst(const Tensor& logits) : logits_(logits) {
    for (double v : logits.values<double>()) scale_ = std::max(scale_, std::abs(v));
  }
  void compare(const Tensor& other, std::int64_t row, std::int64_t sentence) {
    const std::int64_t columns = logits_.shape()[1];
    const double off =
        difference(logits_at(other, row, columns), logits_at(logits_, sentence, columns)).absolute / scale_;
    if (!(off <= worst_)) worst_ = off;  // NaN wins
  }
  CheckResult result(const char* name) const { return check_at_most(name, "relative difference", worst_, kSameInF64); }

 private:
  Tensor logits_;
  double scale_ = 0, worst_ = 0;
};

}  // namespace

CheckResult check_translations(Transformer& model, Transformer& folded, const TranslationBatch& batch) {
  constexpr const char* kName = "greedy translations of the folded model are the same";
  for (const Normalizer* norm : model.normalizers())
    if (norm->mixes_tokens()) return check_skipped(kName, "statistics over a sentence are not known token by token");
  const DecodingOptions greedy{.beam = 1};
  const auto want = beam_search(model, batch.source, batch.source_mask, greedy),
             got = beam_search(folded, batch.source, batch.source_mask, greedy);
  std::size_t same = 0;
  for (std::size_t i = 0; i < want.size(); ++i) same += want[i].at(0).ids == got[i].at(0).ids;
  return check_that(kName, same == want.size(), fmt::format("{} of {}", same, want.size()));
}

CheckResult check_padding(const LogitsOf& logits_of, const TranslationBatch& batch, std::int64_t pad,
                          std::int64_t longest) {
  constexpr const char* kName = "padding changes nothing";
  constexpr std::int64_t kExtra = 2;
  const std::int64_t sentences = batch.source.shape()[0];
  if (std::max(batch.source.shape()[1], batch.input.shape()[1]) + kExtra > longest)
    return check_skipped(kName, "max_positions leaves no room for it");
  const Tensor wide = logits_of(part(batch, 0, sentences, kExtra, pad));
  Worst worst(logits_of(batch));
  for (std::int64_t s = 0; s < sentences; ++s) worst.compare(wide, s, s);
  return worst.result(kName);
}

CheckResult check_other_sentences(const LogitsOf& logits_of, const TranslationBatch& batch, std::int64_t pad) {
  constexpr const char* kName = "other sentences of the batch change nothing";
  const std::int64_t sentences = batch.source.shape()[0];
  if (sentences < 2) return check_skipped(kName, "there is one sentence alone");
  Worst worst(logits_of(batch));
  for (std::int64_t s = 0; s < std::min<std::int64_t>(sentences, 4); ++s)
    worst.compare(logits_of(part(batch, s, 1, 0, pad)), 0, s);
  return worst.result(kName);
}

std::vector<CheckResult> check_translation(Transformer& model, Transformer& folded, const TranslationBatch& batch) {
  const LogitsOf logits_of = [&](const TranslationBatch& b) { return inference_logits(model, b.named(), DType::f64); };
  const TransformerConfig& config = model.config();
  return {check_translations(model, folded, batch), check_padding(logits_of, batch, config.pad, config.max_positions),
          check_other_sentences(logits_of, batch, config.pad)};
}

}  // namespace foldgrad
