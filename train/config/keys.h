// Every key of a configuration, once: what read.cpp and write.cpp read, write and explain, and what config.json holds
// of a Transformer.
#pragma once
#include <type_traits>

#include "models/options/option.h"
#include "train/config/config.h"

namespace foldgrad {

constexpr std::int64_t kMostOfASize = INT32_MAX;
// The table of positions is the only memory that no file bears out.
constexpr std::int64_t kMostPositions = 1'000'000;

struct ConfigKey : Option {
  std::string section;
  bool trajectory = true;         // it decides the trained numbers
  bool required_in_json = false;  // of a model's directory, since inference depends on it
  bool from_data = false;         // or from folding

  ConfigKey(const char* section, const char* name, const char* unit, const char* help, Range range = {})
      : Option{name, help, Kind::text, range, {}, unit}, section(section) {}
  ConfigKey(const char* section, const char* name, const char* help, std::vector<std::string> choices)
      : Option{name, help, Kind::choice, {}, std::move(choices)}, section(section) {}

  std::string full_name() const { return section + "." + name; }
  // From the field that it is the key of; text with choices stays what it is.
  template <class Field>
  void set_kind(const Field&) {
    if (std::is_same_v<Field, double>) kind = Kind::number;
    if (std::is_same_v<Field, std::int64_t>) kind = Kind::integer;
    if (std::is_same_v<Field, bool>) kind = Kind::boolean;
  }
};

inline ConfigKey off_trajectory(ConfigKey key) {
  key.trajectory = false;
  return key;
}
inline ConfigKey required(ConfigKey key) {
  key.required_in_json = true;
  return key;
}
// A key of the model that config.json has and configurations have not.
inline ConfigKey from_data(const char* name) {
  ConfigKey key("model", name, "", "");
  key.from_data = true;
  return key;
}

// Each calls visitor(field, ConfigKey) for every key of a section.
template <class Model, class Visitor>
void visit_model_keys(Model& m, const Visitor& v) {
  const Range size = within(1, kMostOfASize);
  v(m.source_vocabulary, required(from_data("source_vocabulary")));
  v(m.target_vocabulary, required(from_data("target_vocabulary")));
  v(m.width,
    required(ConfigKey("model", "width", "channels", "Width of embeddings and sublayers", within(4, kMostOfASize))));
  v(m.ffn_width, required(ConfigKey("model", "ffn_width", "channels", "Inner width of feed-forward blocks", size)));
  v(m.heads, required(ConfigKey("model", "heads", "", "Attention heads; must divide the width", size)));
  v(m.encoder_layers, required(ConfigKey("model", "encoder_layers", "", "Layers of the encoder", size)));
  v(m.decoder_layers, required(ConfigKey("model", "decoder_layers", "", "Layers of the decoder", size)));
  v(m.max_positions, required(ConfigKey("model", "max_positions", "tokens", "Longest sentence with its end",
                                        within(1, kMostPositions))));
  v(m.pad, required(from_data("pad")));
  v(m.pre_norm,
    required(ConfigKey("model", "pre_norm", "", "Normalize before each sublayer; false: after each residual sum")));
  v(m.activation, required(ConfigKey("model", "activation", "Activation of feed-forward blocks",
                                     {"relu", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh"})));
  v(m.share_embeddings,
    required(ConfigKey("model", "share_embeddings", "Embedding tables that the output projection shares",
                       {"all", "decoder", "none"})));
  v(m.fixnorm, ConfigKey("model", "fixnorm", "", "Divide the rows of embedding tables by their norms (FixNorm)"));
  v(m.output_bias, from_data("output_bias"));
  v(m.dropout, ConfigKey("model", "dropout", "", "Dropout of embeddings and sublayers", kFraction));
  v(m.attention_dropout, ConfigKey("model", "attention_dropout", "", "Dropout of attention probabilities", kFraction));
  v(m.activation_dropout,
    ConfigKey("model", "activation_dropout", "", "Dropout after the activation of feed-forward blocks", kFraction));
  v(m.initialization, ConfigKey("model", "initialization", "Initial weights", {"fairseq", "xavier", "tfixup"}));
  v(m.tfixup_scope, ConfigKey("model", "tfixup_scope", "Which weights tfixup scales", {"v_out_ffn", "all"}));

  v(m.normalizer, required(ConfigKey("norm", "name", "", "Normalizer at every site; `foldgrad norms` lists them")));
  v(m.mask_normalizers, ConfigKey("norm", "mask", "", "Leave padding out of the statistics"));
}

template <class Data, class Visitor>
void visit_data_keys(Data& d, const Visitor& v) {
  v(d.task, ConfigKey("data", "task", "Text from files, or German number words", {"text", "numbers"}));
  v(d.directory, ConfigKey("data", "directory", "", "Directory of the files, below --data-dir or absolute"));
  v(d.train, ConfigKey("data", "train", "", "Training files: NAME.SOURCE and NAME.TARGET"));
  v(d.valid, off_trajectory(ConfigKey("data", "valid", "", "Validation files")));
  v(d.test, off_trajectory(ConfigKey("data", "test", "", "Test files")));
  v(d.source, ConfigKey("data", "source", "", "Source language, the extension of its files"));
  v(d.target, ConfigKey("data", "target", "", "Target language, the extension of its files"));
  v(d.lowercase, ConfigKey("data", "lowercase", "", "Lower-case all text"));
  v(d.tokenizer, ConfigKey("data", "tokenizer", "What a token is", {"words", "bpe", "sentencepiece"}));
  v(d.bpe_codes, ConfigKey("data", "bpe_codes", "", "File of merges in the directory (bpe)"));
  const char* dictionary = "fairseq dict.txt in the directory; empty: built from the training files";
  v(d.source_dictionary, ConfigKey("data", "source_dictionary", "", dictionary));
  v(d.target_dictionary, ConfigKey("data", "target_dictionary", "", dictionary));
  v(d.sentencepiece_model, ConfigKey("data", "sentencepiece_model", "",
                                     "SentencePiece model in the directory; empty: learned from the training files"));
  v(d.vocabulary, ConfigKey("data", "vocabulary", "pieces",
                            "Size of the vocabulary that both languages share (sentencepiece)", at_least(5)));
  v(d.train_pairs,
    ConfigKey("data", "train_pairs", "pairs", "Train on the first that many pairs; 0: on all", at_least(0)));
  v(d.valid_pairs, off_trajectory(ConfigKey("data", "valid_pairs", "pairs",
                                            "Validate on the first that many pairs; 0: on all", at_least(0))));
  v(d.max_length,
    ConfigKey("data", "max_length", "tokens", "Longest sentence of a training pair; 0: no limit", at_least(0)));
  v(d.max_ratio,
    ConfigKey("data", "max_ratio", "", "Largest ratio of a training pair's lengths; 0: no limit", at_least(0)));
}

template <class Train, class Visitor>
void visit_train_keys(Train& t, const Visitor& v) {
  const ConfigKey steps("train", "steps", "updates", "How many updates to make", at_least(1));
  v(t.steps, t.schedule == "cosine" ? steps : off_trajectory(steps));
  v(t.max_tokens, ConfigKey("train", "max_tokens", "tokens", "Largest batch, padding included", at_least(1)));
  v(t.accumulate, ConfigKey("train", "accumulate", "batches", "Batches per update", at_least(1)));
  v(t.optimizer, ConfigKey("train", "optimizer", "Update rule", {"adam", "adamw", "sgd"}));
  v(t.beta1, ConfigKey("train", "beta1", "", "Decay of the first moment (adam, adamw)", kFraction));
  v(t.beta2, ConfigKey("train", "beta2", "", "Decay of the second moment (adam, adamw)", kFraction));
  v(t.eps, ConfigKey("train", "eps", "", "Added to the square root of the second moment (adam, adamw)", above(0)));
  v(t.momentum, ConfigKey("train", "momentum", "", "Momentum (sgd)", kFraction));
  v(t.nesterov, ConfigKey("train", "nesterov", "", "Use Nesterov momentum (sgd)"));
  v(t.weight_decay,
    ConfigKey("train", "weight_decay", "", "Weight decay per update, times the learning rate", at_least(0)));
  v(t.lr, ConfigKey("train", "lr", "", "Peak learning rate", above(0)));
  v(t.schedule,
    ConfigKey("train", "schedule", "Shape of the learning-rate schedule", {"inverse_sqrt", "cosine", "constant"}));
  v(t.warmup, ConfigKey("train", "warmup", "updates", "Linear warm-up to the peak learning rate", at_least(0)));
  v(t.initial_lr, ConfigKey("train", "initial_lr", "", "Learning rate of the first update", at_least(0)));
  v(t.minimum_lr, ConfigKey("train", "minimum_lr", "", "Final learning rate of the cosine schedule", at_least(0)));
  v(t.clip, ConfigKey("train", "clip", "", "Clip the norm of the gradient to this; 0: do not clip", at_least(0)));
  v(t.agc,
    ConfigKey("train", "agc", "",
              "Largest norm of a unit's gradient relative to its weights' (adaptive clipping); 0: off", at_least(0)));
  v(t.agc_exclude, ConfigKey("train", "agc_exclude", "Parameters that agc leaves alone", {"output", "none"}));
  v(t.label_smoothing,
    ConfigKey("train", "label_smoothing", "", "Weight of the uniform distribution in label smoothing", kFraction));
  v(t.average_decay,
    ConfigKey("train", "average_decay", "", "Decay of the moving average of the weights; 0: no average", kFraction));
  v(t.dtype, ConfigKey("train", "dtype", "Type of activations; weights and moments are f32", {"f32", "bf16"}));
  v(t.seed, ConfigKey("train", "seed", "", "Seed of the initial weights, of dropout and of the order of the data",
                      at_least(0)));
  v(t.on_nan,
    ConfigKey("train", "on_nan", "What to do when a loss or gradient is not finite", {"abort", "skip", "rollback"}));
}

template <class Validate, class Visitor>
void visit_validate_keys(Validate& e, const Visitor& v) {
  v(e.every, ConfigKey("validate", "every", "updates", "Updates between validations", at_least(1)));
  v(e.beam, ConfigKey("validate", "beam", "hypotheses", "Width of the beam", at_least(1)));
  v(e.length_penalty, ConfigKey("validate", "length_penalty", "", "Exponent of the length penalty", at_least(0)));
  v(e.max_length_a, ConfigKey("validate", "max_length_a", "",
                              "a in the longest translation, floor(a * source tokens + b); the source counts its end, "
                              "the translation does not",
                              at_least(0)));
  v(e.max_length_b, ConfigKey("validate", "max_length_b", "tokens",
                              "b in the longest translation, floor(a * source tokens + b)", at_least(0)));
  v(e.patience, ConfigKey("validate", "patience", "validations",
                          "Validations without a better score before training stops; 0: never stop", at_least(0)));
}

template <class Output, class Visitor>
void visit_output_keys(Output& o, const Visitor& v) {
  v(o.log_every, ConfigKey("output", "log_every", "updates", "Updates between log lines", at_least(1)));
  v(o.save_every, ConfigKey("output", "save_every", "updates", "Updates between checkpoints", at_least(1)));
  v(o.keep, ConfigKey("output", "keep", "checkpoints", "Newest checkpoints to keep, beside the best", at_least(1)));
}

// `Config` is ExperimentConfig or const ExperimentConfig. Calls visitor(field, ConfigKey) for every key, section after
// section; a field is std::int64_t, double, bool or std::string. The options of normalizers are not here but in
// normalizers(), models/normalizers/normalizer.h.
template <class Config, class Visitor>
void visit_config(Config& c, const Visitor& visitor) {
  const auto v = [&visitor](auto& field, ConfigKey key) {
    key.set_kind(field);
    if (!key.from_data) visitor(field, key);
  };
  // Configurations that were written before there were families say nothing of them, and stay what they were.
  const ConfigKey family("model", "family", "", "Family of the model");
  v(c.family, c.family == "transformer" ? off_trajectory(family) : family);
  visit_model_keys(c.model, v);
  visit_data_keys(c.data, v);
  visit_train_keys(c.train, v);
  const auto without_effect = [&v](auto& field, const ConfigKey& key) { v(field, off_trajectory(key)); };
  visit_validate_keys(c.validate, without_effect);
  visit_output_keys(c.output, without_effect);
}

}  // namespace foldgrad
