// Translates lines of text, as `foldgrad translate` does.
#pragma once
#include <string>
#include <vector>

#include "train/checks/finite.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad {

struct TranslatorOptions {
  DecodingOptions decoding = {};
  std::int64_t max_tokens = 4096;  // largest number of tokens in a batch
  DType dtype = DType::f32;        // type of weights and matrix products: f32 or bf16
  NonFinite non_finite = NonFinite::refuse;
};

// A model at inference with its vocabulary. `model` must outlive this object and must not change.
class Translator {
 public:
  // Throws std::invalid_argument if InferenceTransformer does.
  Translator(Transformer& model, Vocabulary vocabulary, const TranslatorOptions& options);

  // Returns the ids of a line, without a trailing "\r". Throws FileError, with `place` as its path, if the line is not
  // UTF-8, has a word that is too long (train/data/lines.h), or has more tokens than the model or a batch can take.
  Ids encode(std::string line, const std::string& place) const;
  // Returns the best translation of each source (best_hypotheses()).
  std::vector<Hypothesis> translate(const std::vector<Ids>& sources) const;
  // Returns the text of a translation. Throws NonFiniteError, which names `place`, if logits were not finite, unless
  // the options allow that.
  std::string decode(const Hypothesis& best, const std::string& place) const;

 private:
  TranslatorOptions options_;
  Vocabulary vocabulary_;
  InferenceTransformer inference_;
  std::int64_t most_;  // largest number of tokens in a line
};

}  // namespace foldgrad
