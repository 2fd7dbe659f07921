#include "train/tasks/translation_checks.h"

#include <algorithm>
#include <cmath>

#include "models/fold/difference.h"
#include "models/transformer/beam_search.h"
#include "train/checks/model_checks.h"

namespace foldgrad {
namespace {

// Followed by columns of `filler`.
template <class T>
Tensor widened(const Tensor& t, std::int64_t extra, T filler) {
  const std::int64_t rows = t.shape()[0], columns = t.shape()[1];
  const Tensor wide = Tensor::full({rows, columns + extra}, double(filler), t.dtype());
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(t.data<T>() + r * columns, columns, wide.data<T>() + r * (columns + extra));
  return wide;
}

// The first `columns` of a sentence's logits, and a sentence in the place of another.
Tensor logits_at(const Tensor& logits, std::int64_t sentence, std::int64_t columns) {
  return logits.slice(sentence, sentence + 1).reshape({logits.shape()[1], logits.shape()[2]}).slice(0, columns);
}
void replace(const Tensor& logits, std::int64_t sentence, const Tensor& by) {
  logits_at(logits, sentence, logits.shape()[1]).copy_from(by);
}

}  // namespace

CheckResult check_translations(Transformer& model, Transformer& folded, const TranslationBatch& batch) {
  constexpr const char* kName = "greedy translations of the folded model are the same";
  for (const Normalizer* norm : model.normalizers())
    if (norm->mixes_tokens()) return check_skipped(kName, "statistics over a sentence are not known token by token");
  const DecodingOptions greedy{.beam = 1};
  const auto want = beam_search(InferenceTransformer(model), batch.source, batch.source_mask, greedy),
             got = beam_search(InferenceTransformer(folded), batch.source, batch.source_mask, greedy);
  std::size_t same = 0;
  for (std::size_t i = 0; i < want.size(); ++i) same += want[i].at(0).ids == got[i].at(0).ids;
  return check_that(kName, same == want.size(), fmt::format("{} of {}", same, want.size()));
}

CheckResult check_padding(const LogitsOf& logits_of, const TranslationBatch& batch, std::int64_t pad,
                          std::int64_t longest) {
  constexpr const char* kName = "padding changes nothing";
  constexpr std::int64_t kExtra = 2;
  if (std::max(batch.source.shape()[1], batch.input.shape()[1]) + kExtra > longest)
    return check_skipped(kName, "max_positions leaves no room for it");
  const auto ids = [&](const Tensor& t) { return widened<std::int64_t>(t, kExtra, pad); };
  const auto mask = [&](const Tensor& t) { return widened<std::uint8_t>(t, kExtra, 0); };
  const Tensor want = logits_of(batch), got = want.clone(),
               wide = logits_of({ids(batch.source), mask(batch.source_mask), ids(batch.input), mask(batch.input_mask),
                                 ids(batch.target)});
  for (std::int64_t s = 0; s < want.shape()[0]; ++s) replace(got, s, logits_at(wide, s, want.shape()[1]));
  return check_same_logits(kName, got, want, kSameInF64);
}

CheckResult check_other_sentences(const LogitsOf& logits_of, const TranslationBatch& batch) {
  constexpr const char* kName = "other sentences of the batch change nothing";
  const std::int64_t sentences = batch.source.shape()[0];
  if (sentences < 2) return check_skipped(kName, "there is one sentence alone");
  const Tensor want = logits_of(batch), got = want.clone();
  for (std::int64_t s = 0; s < std::min<std::int64_t>(sentences, 4); ++s) {
    const auto alone = [s](const Tensor& t) { return t.slice(s, s + 1); };
    replace(got, s,
            logits_at(logits_of({alone(batch.source), alone(batch.source_mask), alone(batch.input),
                                 alone(batch.input_mask), alone(batch.target)}),
                      0, want.shape()[1]));
  }
  return check_same_logits(kName, got, want, kSameInF64);
}

std::vector<CheckResult> check_translation(Transformer& model, Transformer& folded, const TranslationBatch& batch) {
  const LogitsOf logits_of = [&](const TranslationBatch& b) { return inference_logits(model, b.named(), DType::f64); };
  const TransformerConfig& config = model.config();
  return {check_translations(model, folded, batch), check_padding(logits_of, batch, config.pad, config.max_positions),
          check_other_sentences(logits_of, batch)};
}

}  // namespace foldgrad
