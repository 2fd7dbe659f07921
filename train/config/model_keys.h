// The keys of models, [model] and [norm], in configurations and in config.json.
#pragma once
#include "models/cct/config.h"
#include "models/transformer/config.h"
#include "models/vit/config.h"
#include "train/config/key.h"

namespace foldgrad {

// The table of positions takes memory that no parameter in the file accounts for.
constexpr std::int64_t kMostPositions = 1'000'000;

// Each function calls visitor(member, ConfigKey) for every key. First come those that families share.
template <class Model, class Visitor>
void visit_size_keys(Model& m, const Visitor& v) {
  const Range size = within(1, kMostOfASize);
  v(m.width,
    required(ConfigKey("model", "width", "channels", "Width of embeddings and sublayers", within(4, kMostOfASize))));
  v(m.ffn_width, required(ConfigKey("model", "ffn_width", "channels", "Inner width of feed-forward blocks", size)));
  v(m.heads, required(ConfigKey("model", "heads", "", "Attention heads; must divide the width", size)));
}

template <class Model, class Visitor>
void visit_activation_key(Model& m, const Visitor& v) {
  v(m.activation,
    required(ConfigKey("model", "activation", "Activation of feed-forward blocks", m.activation_names())));
}

template <class Model, class Visitor>
void visit_layer_keys(Model& m, const Visitor& v) {
  v(m.pre_norm,
    required(ConfigKey("model", "pre_norm", "", "Normalize before each sublayer; false: after each residual sum")));
  visit_activation_key(m, v);
}

template <class Model, class Visitor>
void visit_dropout_keys(Model& m, const Visitor& v) {
  v(m.dropout, ConfigKey("model", "dropout", "", "Dropout of embeddings and sublayers", kFraction));
  v(m.attention_dropout, ConfigKey("model", "attention_dropout", "", "Dropout of attention probabilities", kFraction));
  v(m.activation_dropout,
    ConfigKey("model", "activation_dropout", "", "Dropout after the activation of feed-forward blocks", kFraction));
}

// Keys of families that classify images.
template <class Model, class Visitor>
void visit_image_block_keys(Model& m, const Visitor& v) {
  v(m.drop_path,
    ConfigKey("model", "drop_path", "",
              "How often the last layer leaves a sublayer out for an image (stochastic depth), the first never",
              kFraction));
  v(m.weight_standardization,
    ConfigKey("model", "weight_standardization", "", "Standardize the weights of layers, with a gain for each row"));
}

template <class Model, class Visitor>
void visit_normalizer_key(Model& m, const Visitor& v) {
  v(m.normalizer, required(ConfigKey("norm", "name", "", "Normalizer at every site; `foldgrad norms` lists them")));
}

// All keys of each family.
template <KeysOf<TransformerConfig> Model, class Visitor>
void visit_keys(Model& m, const Visitor& v) {
  const Range size = within(1, kMostOfASize);
  v(m.source_vocabulary, required(from_data("source_vocabulary")));
  v(m.target_vocabulary, required(from_data("target_vocabulary")));
  visit_size_keys(m, v);
  v(m.encoder_layers, required(ConfigKey("model", "encoder_layers", "", "Layers of the encoder", size)));
  v(m.decoder_layers, required(ConfigKey("model", "decoder_layers", "", "Layers of the decoder", size)));
  v(m.max_positions, required(ConfigKey("model", "max_positions", "tokens", "Longest sentence with its end",
                                        within(1, kMostPositions))));
  v(m.pad, required(from_data("pad")));
  visit_layer_keys(m, v);
  v(m.share_embeddings,
    required(ConfigKey("model", "share_embeddings", "Embedding tables that the output projection shares",
                       Model::kSharedEmbeddings)));
  v(m.fixnorm, ConfigKey("model", "fixnorm", "", "Divide the rows of embedding tables by their norms (FixNorm)"));
  v(m.output_bias, from_data("output_bias"));
  visit_dropout_keys(m, v);
  v(m.initialization, ConfigKey("model", "initialization", "Initial weights", Model::kInitializations));
  v(m.tfixup_scope, ConfigKey("model", "tfixup_scope", "Which weights tfixup scales", kTfixupScopes));

  visit_normalizer_key(m, v);
  v(m.mask_normalizers, ConfigKey("norm", "mask", "", "Leave padding out of the statistics"));
}

// Keys that families which classify images share: before and after those of their own.
template <class Model, class Visitor>
void visit_image_size_keys(Model& m, const Visitor& v) {
  v(m.image_size, required(from_data("image_size")));
  v(m.classes, required(from_data("classes")));
  visit_size_keys(m, v);
  v(m.layers, required(ConfigKey("model", "layers", "", "Layers", within(1, kMostOfASize))));
  v(m.pooling, required(ConfigKey("model", "pooling",
                                  "What the classes are read from: a token of its own, the mean of all tokens, or "
                                  "their sum with learned weights",
                                  Model::kPoolings)));
}

template <class Model, class Visitor>
void visit_image_training_keys(Model& m, const Visitor& v) {
  visit_dropout_keys(m, v);
  visit_image_block_keys(m, v);
  v(m.initialization, ConfigKey("model", "initialization", "Initial weights", Model::kInitializations));
  v(m.tfixup_scope, ConfigKey("model", "tfixup_scope", "Which weights tfixup scales", kTfixupScopes));
  v(m.positions, ConfigKey("model", "positions",
                           "What learned positions begin with: random numbers, or sines and cosines of row and column",
                           Model::kPositions));

  visit_normalizer_key(m, v);
}

template <KeysOf<VitConfig> Model, class Visitor>
void visit_keys(Model& m, const Visitor& v) {
  v(m.patch, required(ConfigKey("model", "patch", "pixels", "Side of a patch; must divide that of the images",
                                within(1, kMostOfASize))));
  visit_image_size_keys(m, v);
  v(m.qkv_bias, required(ConfigKey("model", "qkv_bias", "", "Bias of queries, keys and values")));
  visit_layer_keys(m, v);
  visit_image_training_keys(m, v);
}

template <KeysOf<CctConfig> Model, class Visitor>
void visit_keys(Model& m, const Visitor& v) {
  v(m.stem, required(ConfigKey("model", "stem",
                               "Convolutions as published, or hybrid: of fewer channels, each with a normalizer",
                               CctConfig::kStems)));
  v(m.convs, required(ConfigKey("model", "convs", "", "Convolutions between an image and its tokens", within(1, 6))));
  v(m.kernel,
    required(ConfigKey("model", "kernel", "pixels", "Side of a convolution's kernel: 3, 5 or 7", within(3, 7))));
  visit_image_size_keys(m, v);
  v(m.block,
    required(ConfigKey("model", "block", "Pre-norm, or as published: the second normalizer of a layer is on the stream",
                       CctConfig::kBlocks)));
  v(m.qkv_bias, from_data("qkv_bias"));
  visit_activation_key(m, v);
  visit_image_training_keys(m, v);
}

}  // namespace foldgrad
