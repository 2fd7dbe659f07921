// Sentences as a Transformer takes them, of ids.
#pragma once
#include <vector>

#include "models/transformer/transformer.h"

namespace foldgrad {

// On the CPU. Rows are padded with `pad` behind, sources in front if wanted; inputs begin with kEos, targets are what
// follows. As many of each.
TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad,
                            bool pad_sources_left = false);

}  // namespace foldgrad
