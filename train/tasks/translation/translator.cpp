#include "train/tasks/translation/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/files/file.h"
#include "train/data/lines.h"
#include "train/system/unicode.h"

namespace foldgrad {

Translator::Translator(Transformer& model, Vocabulary vocabulary, const TranslatorOptions& options)
    : options_(options),
      vocabulary_(std::move(vocabulary)),
      inference_(model, options.dtype),
      most_(std::min(model.config().max_positions, options.max_tokens)) {}

Ids Translator::encode(std::string line, const std::string& place) const {
  if (line.ends_with('\r')) line.pop_back();
  if (const std::size_t bad = first_bad_utf8(line); bad != std::string::npos)
    throw FileError(place, fmt::format("is not UTF-8 at byte {}", bad + 1));
  if (has_long_word(line))
    throw FileError(place, fmt::format("must not contain a word of more than {} bytes", kLongestWord));
  Ids ids = vocabulary_.encode_source(line);
  if (std::int64_t(ids.size()) > most_)
    throw FileError(place,
                    fmt::format("must have at most {} tokens, including the end token, got {}", most_, ids.size()));
  return ids;
}

std::vector<Hypothesis> Translator::translate(const std::vector<Ids>& sources) const {
  return best_hypotheses(inference_, sources, options_.decoding, options_.max_tokens);
}

std::string Translator::decode(const Hypothesis& best, const std::string& place) const {
  if (options_.non_finite == NonFinite::refuse && !std::isfinite(best.score))
    throw NonFiniteError(fmt::format("{}: the logits of its translation are not finite", place));
  return vocabulary_.decode_target(best.ids);
}

}  // namespace foldgrad
