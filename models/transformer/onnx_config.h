// The files beside the graphs from which Hugging Face's Transformers and Optimum learn what they run: to them the model
// is one of the class Marian, which also begins a translation with the end of a sentence.
#pragma once
#include <string>

#include "models/transformer/config.h"

namespace foldgrad {

// config.json: sizes, ids that have a meaning.
std::string runtime_config(const TransformerConfig& config);

// generation_config.json: how `generate` decodes when nothing else is said, which is how foldgrad does it: padding is
// never chosen, nor the end as the first token. Here `forced_eos_token_id` is null, since Marian's default ends
// translations of the greatest length with id 0.
std::string runtime_generation_config(const TransformerConfig& config);

}  // namespace foldgrad
