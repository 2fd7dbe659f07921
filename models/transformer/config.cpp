#include "models/transformer/config.h"

#include "engine/check.h"

namespace foldgrad {

void TransformerConfig::validate() const {
  require_positive("transformer", {{"source_vocabulary", source_vocabulary},
                                   {"target_vocabulary", target_vocabulary},
                                   {"encoder_layers", encoder_layers},
                                   {"decoder_layers", decoder_layers},
                                   {"max_positions", max_positions}});
  FOLDGRAD_CHECK(width >= 4 && width % 2 == 0, "transformer: width must be even and at least 4, got {}", width);
  BlockConfig::validate("transformer");
  for (std::int64_t rows : {source_vocabulary, target_vocabulary})
    FOLDGRAD_CHECK(pad >= 0 && pad < rows, "transformer: pad must be an id in [0, {}), got {}", rows, pad);
  if (share_embeddings != "inputs")
    require_choice("transformer", "share_embeddings", share_embeddings, kSharedEmbeddings);
  require_choice("transformer", "initialization", initialization, kInitializations);
  require_choice("transformer", "tfixup_scope", tfixup_scope, kTfixupScopes);
  FOLDGRAD_CHECK(!one_input_table() || source_vocabulary == target_vocabulary,
                 "transformer: share_embeddings = {} needs target_vocabulary = source_vocabulary = {}, got {}",
                 share_embeddings, source_vocabulary, target_vocabulary);
}

}  // namespace foldgrad
