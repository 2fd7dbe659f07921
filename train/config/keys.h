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
  bool from_data = false;         // or from folding: config.json has it, configurations do not

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
inline ConfigKey from_data(ConfigKey key) {
  key.from_data = true;
  return key;
}

// Each calls visitor(field, ConfigKey) for every key of a section.
template <class Model, class Visitor>
void visit_model_keys(Model& m, const Visitor& v) {
  const Range size = within(1, kMostOfASize);
  const char* rows = "Entries of the vocabulary";
  v(m.source_vocabulary, required(from_data(ConfigKey("model", "source_vocabulary", "", rows, size))));
  v(m.target_vocabulary, required(from_data(ConfigKey("model", "target_vocabulary", "", rows, size))));
  v(m.width,
    required(ConfigKey("model", "width", "channels", "Width of embeddings and sublayers", within(4, kMostOfASize))));
  v(m.ffn_width, required(ConfigKey("model", "ffn_width", "channels", "Inner width of feed-forward blocks", size)));
  v(m.heads, required(ConfigKey("model", "heads", "", "Attention heads; must divide the width", size)));
  v(m.encoder_layers, required(ConfigKey("model", "encoder_layers", "", "Layers of the encoder", size)));
  v(m.decoder_layers, required(ConfigKey("model", "decoder_layers", "", "Layers of the decoder", size)));
  v(m.max_positions, required(ConfigKey("model", "max_positions", "tokens", "Longest sentence with its end",
                                        within(1, kMostPositions))));
  v(m.pad, required(from_data(ConfigKey("model", "pad", "", "Id of padding", at_least(0)))));
  v(m.pre_norm, required(ConfigKey("model", "pre_norm", "", "Normalize before sublayers; false: after the sums")));
  v(m.activation, required(ConfigKey("model", "activation", "Activation of feed-forward blocks",
                                     {"relu", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh"})));
  v(m.share_embeddings, required(ConfigKey("model", "share_embeddings", "Tables shared with the output projection",
                                           {"all", "decoder", "none"})));
  v(m.fixnorm, ConfigKey("model", "fixnorm", "", "Divide rows of embedding tables by their lengths (FixNorm)"));
  v(m.output_bias, from_data(ConfigKey("model", "output_bias", "", "Bias of the output projection")));
  v(m.dropout, ConfigKey("model", "dropout", "", "Dropout of embeddings and sublayers", kFraction));
  v(m.attention_dropout, ConfigKey("model", "attention_dropout", "", "Dropout of probabilities", kFraction));
  v(m.activation_dropout, ConfigKey("model", "activation_dropout", "", "Dropout after the activation", kFraction));
  v(m.initialization, ConfigKey("model", "initialization", "Initial weights", {"fairseq", "xavier", "tfixup"}));
  v(m.tfixup_scope, ConfigKey("model", "tfixup_scope", "What tfixup scales", {"v_out_ffn", "all"}));

  v(m.normalizer, required(ConfigKey("norm", "name", "", "Normalizer at every site: one that `foldgrad norms` lists")));
  v(m.mask_normalizers, ConfigKey("norm", "mask", "", "Leave padding out of statistics"));
}

template <class Data, class Visitor>
void visit_data_keys(Data& d, const Visitor& v) {
  v(d.task, ConfigKey("data", "task", "Text of files, or German number words", {"text", "numbers"}));
  v(d.directory, ConfigKey("data", "directory", "", "Where the files are: below --data-dir, or absolute"));
  v(d.train, ConfigKey("data", "train", "", "Training files: NAME.SOURCE and NAME.TARGET"));
  v(d.valid, off_trajectory(ConfigKey("data", "valid", "", "Validation files")));
  v(d.test, off_trajectory(ConfigKey("data", "test", "", "Test files")));
  v(d.source, ConfigKey("data", "source", "", "Source language, the ending of its files"));
  v(d.target, ConfigKey("data", "target", "", "Target language, the ending of its files"));
  v(d.lowercase, ConfigKey("data", "lowercase", "", "Put text into small letters"));
  v(d.tokenizer, ConfigKey("data", "tokenizer", "What ids stand for", {"words", "bpe", "sentencepiece"}));
  v(d.bpe_codes, ConfigKey("data", "bpe_codes", "", "Merges, a file in the directory (bpe)"));
  const char* of_training = "dict.txt of fairseq, in the directory; empty: of the training files";
  v(d.source_dictionary, ConfigKey("data", "source_dictionary", "", of_training));
  v(d.target_dictionary, ConfigKey("data", "target_dictionary", "", of_training));
  v(d.sentencepiece_model, ConfigKey("data", "sentencepiece_model", "", "In the directory; empty: learned"));
  v(d.vocabulary, ConfigKey("data", "vocabulary", "pieces", "For both languages (sentencepiece)", at_least(5)));
  v(d.train_pairs, ConfigKey("data", "train_pairs", "pairs", "The first that many to train on; 0: all", at_least(0)));
  v(d.valid_pairs, off_trajectory(ConfigKey("data", "valid_pairs", "pairs",
                                            "The first that many to validate on; 0: all", at_least(0))));
  v(d.max_length, ConfigKey("data", "max_length", "tokens", "Longer ones are not trained on; 0: any", at_least(0)));
  v(d.max_ratio, ConfigKey("data", "max_ratio", "", "Of lengths, of what is trained on; 0: any", at_least(0)));
}

template <class Train, class Visitor>
void visit_train_keys(Train& t, const Visitor& v) {
  const ConfigKey steps("train", "steps", "updates", "When to stop", at_least(1));
  v(t.steps, t.schedule == "cosine" ? steps : off_trajectory(steps));
  v(t.max_tokens, ConfigKey("train", "max_tokens", "tokens", "Size of a batch, padding included", at_least(1)));
  v(t.accumulate, ConfigKey("train", "accumulate", "batches", "Batches per update", at_least(1)));
  v(t.optimizer, ConfigKey("train", "optimizer", "Update rule", {"adam", "adamw", "sgd"}));
  v(t.beta1, ConfigKey("train", "beta1", "", "Decay of the first moment (adam, adamw)", kFraction));
  v(t.beta2, ConfigKey("train", "beta2", "", "Decay of the second moment (adam, adamw)", kFraction));
  v(t.eps, ConfigKey("train", "eps", "", "Added to the root of the second moment (adam, adamw)", above(0)));
  v(t.momentum, ConfigKey("train", "momentum", "", "Decay of the momentum (sgd)", kFraction));
  v(t.nesterov, ConfigKey("train", "nesterov", "", "Nesterov's momentum (sgd)"));
  v(t.weight_decay, ConfigKey("train", "weight_decay", "", "Per update, times the learning rate", at_least(0)));
  v(t.lr, ConfigKey("train", "lr", "", "Largest learning rate", above(0)));
  v(t.schedule, ConfigKey("train", "schedule", "Of the learning rate", {"inverse_sqrt", "cosine", "constant"}));
  v(t.warmup, ConfigKey("train", "warmup", "updates", "Until the largest learning rate", at_least(0)));
  v(t.initial_lr, ConfigKey("train", "initial_lr", "", "Learning rate of the first update", at_least(0)));
  v(t.minimum_lr, ConfigKey("train", "minimum_lr", "", "Learning rate that the cosine ends at", at_least(0)));
  v(t.clip, ConfigKey("train", "clip", "", "Largest norm of the gradient; 0: not clipped", at_least(0)));
  v(t.agc,
    ConfigKey("train", "agc", "", "Largest norm of a unit's gradient, per norm of its weights; 0: any", at_least(0)));
  v(t.agc_exclude,
    ConfigKey("train", "agc_exclude", "What agc leaves alone: the output projection", {"output", "none"}));
  v(t.label_smoothing, ConfigKey("train", "label_smoothing", "", "Weight of the uniform distribution", kFraction));
  v(t.average_decay, ConfigKey("train", "average_decay", "", "Of the moving average of weights; 0: none", kFraction));
  v(t.dtype, ConfigKey("train", "dtype", "Of activations; weights and moments are f32", {"f32", "bf16"}));
  v(t.seed, ConfigKey("train", "seed", "", "Of initial weights, dropout and the order of the data", at_least(0)));
  v(t.on_nan, ConfigKey("train", "on_nan", "After a loss that is not finite", {"abort", "skip", "rollback"}));
}

template <class Validate, class Visitor>
void visit_validate_keys(Validate& e, const Visitor& v) {
  v(e.every, ConfigKey("validate", "every", "updates", "How often", at_least(1)));
  v(e.beam, ConfigKey("validate", "beam", "hypotheses", "Width of the beam", at_least(1)));
  v(e.length_penalty, ConfigKey("validate", "length_penalty", "", "Exponent of the length", at_least(0)));
  const char* longest =
      "Longest translation without its end: floor(max_length_a * tokens of the source with theirs + max_length_b)";
  v(e.max_length_a, ConfigKey("validate", "max_length_a", "", longest, at_least(0)));
  v(e.max_length_b, ConfigKey("validate", "max_length_b", "tokens", "The same", at_least(0)));
  v(e.patience, ConfigKey("validate", "patience", "validations", "Without a better score before training stops; 0: any",
                          at_least(0)));
}

template <class Output, class Visitor>
void visit_output_keys(Output& o, const Visitor& v) {
  v(o.log_every, ConfigKey("output", "log_every", "updates", "How often to log", at_least(1)));
  v(o.save_every, ConfigKey("output", "save_every", "updates", "How often to save", at_least(1)));
  v(o.keep, ConfigKey("output", "keep", "checkpoints", "How many to keep beside the best", at_least(1)));
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
