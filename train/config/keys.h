// Every key of a configuration, once: what read.cpp and write.cpp read, write and explain.
#pragma once
#include "train/config/model_keys.h"

namespace foldgrad {

// Each calls visitor(field, ConfigKey) for every key of a section, or for those of it that a family has.
template <class Data, class Visitor>
void visit_text_keys(Data& d, const Visitor& v) {
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

constexpr std::int64_t kMostImageSide = 4096;

template <class Images, class Visitor>
void visit_image_keys(Images& i, const Visitor& v) {
  v(i.task, ConfigKey("data", "task", "Images from files of CIFAR or of a folder, or shapes that are drawn",
                      {"cifar10", "cifar100", "folder", "shapes"}));
  v(i.directory, ConfigKey("data", "directory", "",
                           "Directory of the files, below --data-dir or absolute; empty: as their archive names it"));
  v(i.image_size,
    ConfigKey("data", "image_size", "pixels", "Side that images are scaled to (folder)", within(1, kMostImageSide)));
  v(i.train_images, ConfigKey("data", "train_images", "images",
                              "Train on the first that many images; 0: on all, of shapes 50,000", at_least(0)));
  v(i.valid_images, ConfigKey("data", "valid_images", "images",
                              "Hold that many training images out to validate on, of shapes draw so many more; 0: "
                              "validate on the test images",
                              at_least(0)));
  v(i.augment,
    ConfigKey("data", "augment", "",
              "How training images are changed at random, names with spaces between: crop4 (pixels), flip or "
              "flip_alternating, randaugment2m9 (operations, magnitude), cutout8 (pixels)"));
}

// Either key of a pair alone is one of a configuration: that of updates where that of epochs is 0.
template <class Train, class Visitor>
void visit_length_keys(Train& t, const Visitor& v) {
  const auto length = [&t](const ConfigKey& key) { return t.schedule == "cosine" ? key : off_trajectory(key); };
  const ConfigKey epochs("train", "epochs", "epochs", "How often to go through the data; 0: as train.steps says",
                         within(0, kMostOfASize));
  v(t.epochs, newer(length(epochs), t.epochs == 0));
  if (t.epochs == 0)
    v(t.steps, length(ConfigKey("train", "steps", "updates", "How many updates to make", at_least(1))));
}

template <class Train, class Visitor>
void visit_warmup_keys(Train& t, const Visitor& v) {
  const ConfigKey epochs("train", "warmup_epochs", "epochs",
                         "Linear warm-up to the peak learning rate; 0: as train.warmup says", within(0, kMostOfASize));
  v(t.warmup_epochs, newer(epochs, t.warmup_epochs == 0));
  if (t.warmup_epochs == 0)
    v(t.warmup, ConfigKey("train", "warmup", "updates", "Linear warm-up to the peak learning rate", at_least(0)));
}

template <class Train, class Visitor>
void visit_mix_keys(Train& t, const Visitor& v) {
  v(t.mixup, ConfigKey("train", "mixup", "", "a of mixup's Beta(a, a); 0: no mixup", at_least(0)));
  v(t.cutmix, ConfigKey("train", "cutmix", "", "a of CutMix's Beta(a, a); 0: no CutMix", at_least(0)));
  v(t.mix_off_epoch, ConfigKey("train", "mix_off_epoch", "epochs",
                               "Mix in the first that many epochs alone; 0: in all of them", at_least(0)));
}

template <class Train, class Visitor>
void visit_train_keys(Train& t, bool images, const Visitor& v) {
  visit_length_keys(t, v);
  if (images)
    v(t.batch, ConfigKey("train", "batch", "images", "Images of a batch", at_least(1)));
  else
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
  v(t.no_decay,
    newer(ConfigKey("train", "no_decay",
                    "Parameters that weight decay leaves alone: none, or biases, gains and learned positions",
                    {"none", "vectors"}),
          t.no_decay == "none"));
  v(t.lr, ConfigKey("train", "lr", "", "Peak learning rate", above(0)));
  v(t.schedule,
    ConfigKey("train", "schedule", "Shape of the learning-rate schedule", {"inverse_sqrt", "cosine", "constant"}));
  visit_warmup_keys(t, v);
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
  v(t.average_statistics,
    newer(ConfigKey("train", "average_statistics", "", "Average the normalizers' running statistics with the weights"),
          !t.average_statistics));
  if (images) visit_mix_keys(t, v);
  v(t.dtype, ConfigKey("train", "dtype", "Type of activations; weights and moments are f32", {"f32", "bf16"}));
  v(t.seed, ConfigKey("train", "seed", "", "Seed of the initial weights, of dropout and of the order of the data",
                      at_least(0)));
  v(t.on_nan,
    ConfigKey("train", "on_nan", "What to do when a loss or gradient is not finite", {"abort", "skip", "rollback"}));
}

template <class Validate, class Visitor>
void visit_beam_keys(Validate& e, const Visitor& v) {
  v(e.beam, ConfigKey("validate", "beam", "hypotheses", "Width of the beam", at_least(1)));
  v(e.length_penalty, ConfigKey("validate", "length_penalty", "", "Exponent of the length penalty", at_least(0)));
  v(e.max_length_a, ConfigKey("validate", "max_length_a", "",
                              "a in the longest translation, floor(a * source tokens + b); the source counts its end, "
                              "the translation does not",
                              at_least(0)));
  v(e.max_length_b, ConfigKey("validate", "max_length_b", "tokens",
                              "b in the longest translation, floor(a * source tokens + b)", at_least(0)));
}

template <class Validate, class Visitor>
void visit_validate_keys(Validate& e, bool images, const Visitor& v) {
  v(e.every, ConfigKey("validate", "every", "updates", "Updates between validations", at_least(1)));
  if (!images) visit_beam_keys(e, v);
  v(e.patience, ConfigKey("validate", "patience", "validations",
                          "Validations without a better score before training stops; 0: never stop", at_least(0)));
}

template <class Output, class Visitor>
void visit_output_keys(Output& o, const Visitor& v) {
  v(o.log_every, ConfigKey("output", "log_every", "updates", "Updates between log lines", at_least(1)));
  v(o.save_every, ConfigKey("output", "save_every", "updates", "Updates between checkpoints", at_least(1)));
  v(o.keep, ConfigKey("output", "keep", "checkpoints", "Newest checkpoints to keep, beside the best", at_least(1)));
}

template <class Record, class Visitor>
void visit_record_keys(Record& r, const Visitor& v) {
  v(r.from, ConfigKey("record", "from", "updates",
                      "First updates of what is recorded of normalizers at the begin and at the end, the latter "
                      "negative: -200 is the 200th from the end"));
  v(r.steps, ConfigKey("record", "steps", "updates", "How many to record from each of them", at_least(1)));
}

// `Config` is ExperimentConfig or const ExperimentConfig. Calls visitor(field, ConfigKey) for every key that its family
// has, section after section, the family first: a visitor may set it. A field is std::int64_t, double, bool,
// std::string or a list of std::int64_t. The options of normalizers are not here but in normalizers(),
// models/normalizers/normalizer.h.
template <class Config, class Visitor>
void visit_config(Config& c, const Visitor& visitor) {
  const auto v = [&visitor](auto& field, ConfigKey key) {
    key.set_kind(field);
    if (!key.from_data) visitor(field, key);
  };
  // Configurations that were written before there were families say nothing of them, and stay what they were.
  const ConfigKey family("model", "family", "", "Family of the model");
  v(c.family, c.family == "transformer" ? off_trajectory(family) : family);
  const bool images = c.of_images();
  visit_model(c, [&](auto& model) { visit_model_keys(model, v); });
  if (images)
    visit_image_keys(c.images, v);
  else
    visit_text_keys(c.data, v);
  visit_train_keys(c.train, images, v);
  const auto without_effect = [&v](auto& field, const ConfigKey& key) { v(field, off_trajectory(key)); };
  visit_validate_keys(c.validate, images, without_effect);
  visit_output_keys(c.output, without_effect);
  visit_record_keys(c.record, without_effect);
}

}  // namespace foldgrad
