// Checks of models that translate, beside those of every model (train/checks/model_checks.h).
#pragma once
#include <functional>

#include "models/transformer/transformer.h"
#include "train/checks/check_result.h"

namespace foldgrad {

// Logits [B, T, V] of a batch at inference, in f64 on the host, zero at padding.
using LogitsOf = std::function<Tensor(const TranslationBatch&)>;

// Skipped for normalizers with statistics over the tokens of a sentence, which are not known token by token.
CheckResult check_translations(Transformer& model, Transformer& folded, const TranslationBatch& batch);

// Two more columns of padding change no logit of a token. `longest`: tokens that the model takes at most.
CheckResult check_padding(const LogitsOf& logits_of, const TranslationBatch& batch, std::int64_t pad,
                          std::int64_t longest);
// Nor do the other sentences of a batch, for the first four of it. Skipped for a batch of one sentence.
CheckResult check_other_sentences(const LogitsOf& logits_of, const TranslationBatch& batch);

// All three, of a model and the one folded from it, f64 on one device; the batch on the CPU.
std::vector<CheckResult> check_translation(Transformer& model, Transformer& folded, const TranslationBatch& batch);

}  // namespace foldgrad
