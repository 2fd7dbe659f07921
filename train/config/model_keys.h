// The keys of models, [model] and [norm], in configurations and in config.json.
#pragma once
#include "models/cct/config.h"
#include "models/gpt/config.h"
#include "models/transformer/config.h"
#include "models/vit/config.h"
#include "train/config/key.h"

namespace foldgrad {

// The longest table of positions. It is not a parameter, so no tensor in the file bears out its size.
constexpr std::int64_t kMostPositions = 1'000'000;

// Each calls visitor(member, ConfigKey) for every key. First the keys that families share.
void visit_size_keys(auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const Range size = within(1, kMostOfASize);
  needed(m.width, "width", "channels", "Width of embeddings and sublayers", within(4, kMostOfASize));
  needed(m.ffn_width, "ffn_width", "channels", "Inner width of feed-forward blocks", size);
  needed(m.heads, "heads", "", "Attention heads; must divide the width", size);
}

void visit_normalizer_key(auto& m, const auto& v) {
  keys_in("norm", v, required)(m.normalizer, "name", "", "Normalizer at every site; `foldgrad norms` lists them");
}

void visit_layer_keys(auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.pre_norm, "pre_norm", "", "Normalize before each sublayer; false: after each residual sum");
  needed(m.activation, "activation", "Activation of feed-forward blocks", m.activation_names());
}

void visit_dropout_keys(auto& m, const auto& v) {
  const auto model = keys_in("model", v);
  model(m.dropout, "dropout", "", "Dropout of embeddings and sublayers", kFraction);
  model(m.attention_dropout, "attention_dropout", "", "Dropout of attention probabilities", kFraction);
  model(m.activation_dropout, "activation_dropout", "", "Dropout after the activation of feed-forward blocks",
        kFraction);
}

// Each visits all keys of one family.
void visit_keys(KeysOf<TransformerConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required), model = keys_in("model", v);
  const Range size = within(1, kMostOfASize);
  v(m.source_vocabulary, required(from_data("source_vocabulary")));
  v(m.target_vocabulary, required(from_data("target_vocabulary")));
  visit_size_keys(m, v);
  needed(m.encoder_layers, "encoder_layers", "", "Layers of the encoder", size);
  needed(m.decoder_layers, "decoder_layers", "", "Layers of the decoder", size);
  needed(m.max_positions, "max_positions", "tokens", "Longest sentence, including its end", within(1, kMostPositions));
  v(m.pad, required(from_data("pad")));
  visit_layer_keys(m, v);
  needed(m.share_embeddings, "share_embeddings", "Embedding tables that the output projection shares",
         m.kSharedEmbeddings);
  model(m.fixnorm, "fixnorm", "", "Divide the rows of embedding tables by their norms (FixNorm)");
  v(m.output_bias, from_data("output_bias"));
  visit_dropout_keys(m, v);
  model(m.initialization, "initialization", "Initial weights", m.kInitializations);
  model(m.tfixup_scope, "tfixup_scope", "Which weights tfixup scales", kTfixupScopes);
  visit_normalizer_key(m, v);
}

void visit_keys(KeysOf<GptConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  v(m.vocabulary, required(from_data("vocabulary")));
  visit_size_keys(m, v);
  needed(m.layers, "layers", "", "Layers", within(1, kMostOfASize));
  needed(m.context, "context", "tokens", "Longest sequence; training uses this length", within(1, kMostPositions));
  visit_layer_keys(m, v);
  needed(m.positions, "positions", "Positions of tokens: learned, or sines and cosines", m.kPositions);
  needed(m.tied, "tied", "", "The output projection is the table of embeddings");
  v(m.output_bias, from_data("output_bias"));
  visit_dropout_keys(m, v);
  visit_normalizer_key(m, v);
}

// Visit the keys that families of image classifiers share: before and after the families' own keys.
void visit_image_size_keys(auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  v(m.image_size, required(from_data("image_size")));
  v(m.classes, required(from_data("classes")));
  visit_size_keys(m, v);
  needed(m.layers, "layers", "", "Layers", within(1, kMostOfASize));
  needed(m.pooling, "pooling",
         "Input of the classifier: a class token, the mean of all tokens, or "
         "their sum with learned weights",
         m.kPoolings);
}

void visit_image_training_keys(auto& m, const auto& v) {
  const auto model = keys_in("model", v);
  visit_dropout_keys(m, v);
  model(m.drop_path, "drop_path", "",
        "Probability that the last layer skips a sublayer for an image (stochastic depth), from 0 in the first",
        kFraction);
  model(m.weight_standardization, "weight_standardization", "",
        "Standardize the weights of layers, with a gain for each row");
  keys_in("model", v, newer)(m.standardization_scope, "standardization_scope",
                             "Weights of layers that weight_standardization applies to", kStandardizationScopes);
  model(m.initialization, "initialization", "Initial weights", m.kInitializations);
  model(m.tfixup_scope, "tfixup_scope", "Which weights tfixup scales", kTfixupScopes);
  model(m.positions, "positions",
        "Initial values of learned positions: random numbers, or sines and cosines of row and column", m.kPositions);
  v(m.class_names, from_data("class_names"));
  v(m.pixels.mean, from_data("image_mean"));
  v(m.pixels.std, from_data("image_std"));
  visit_normalizer_key(m, v);
}

void visit_keys(KeysOf<VitConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.patch, "patch", "pixels", "Side of a patch; must divide that of the images", within(1, kMostOfASize));
  visit_image_size_keys(m, v);
  needed(m.qkv_bias, "qkv_bias", "", "Bias of queries, keys and values");
  visit_layer_keys(m, v);
  keys_in("model", v, newer)(m.fc_norm, "fc_norm", "",
                             "Normalize the classifier's input instead of the last layer's tokens; needs pre_norm");
  visit_image_training_keys(m, v);
}

void visit_keys(KeysOf<CctConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.stem, "stem", "Convolutions as published, or hybrid: of fewer channels, each with a normalizer",
         CctConfig::kStems);
  needed(m.convs, "convs", "", "Convolutions between an image and its tokens", within(1, 6));
  needed(m.kernel, "kernel", "pixels", "Side of a convolution's kernel: 3, 5 or 7", within(3, 7));
  visit_image_size_keys(m, v);
  needed(m.block, "block", "Pre-norm, or as published: the second normalizer of a layer is on the stream",
         CctConfig::kBlocks);
  v(m.qkv_bias, from_data("qkv_bias"));
  needed(m.activation, "activation", "Activation of feed-forward blocks", m.activation_names());
  visit_image_training_keys(m, v);
}

}  // namespace foldgrad
