// The sections of a configuration that are not the model's: the members of each, followed by their keys.
//
// visit_keys(section, visitor) calls visitor(member, ConfigKey) for every key. A member is std::int64_t, double, bool,
// std::string, a list of std::int64_t, or an enumeration with names (models/options/names.h).
#pragma once
#include "train/config/key.h"
#include "train/loop/on_nan.h"
#include "train/loop/schedule.h"

namespace foldgrad {

// Data of translation: texts, batches, and decoding for validation.

enum class TextTask { text, numbers };
constexpr auto names_of(TextTask) { return std::array{"text", "numbers"}; }

enum class Tokenizer { words, bpe, sentencepiece };
constexpr auto names_of(Tokenizer) { return std::array{"words", "bpe", "sentencepiece"}; }

struct DataConfig {
  TextTask task = TextTask::text;
  std::string directory, train = "train", valid = "valid", test = "test", source = "de", target = "en";
  bool lowercase = false;
  Tokenizer tokenizer = Tokenizer::words;
  std::string bpe_codes, source_dictionary, target_dictionary, sentencepiece_model;
  std::int64_t vocabulary = 8000, train_pairs = 0, valid_pairs = 0, max_length = 0;
  double max_ratio = 0;
  std::int64_t max_tokens = 4096;
  std::int64_t beam = 5, max_length_b = 10;
  double length_penalty = 1, max_length_a = 1.2;
  bool operator==(const DataConfig&) const = default;
};

template <KeysOf<DataConfig> Data, class Visitor>
void visit_keys(Data& d, const Visitor& v) {
  v(d.task, ConfigKey("data", "task", "", "Text from files, or German number words"));
  v(d.directory, ConfigKey("data", "directory", "", "Directory of the files, below --data-dir or absolute"));
  v(d.train, ConfigKey("data", "train", "", "Training files: NAME.SOURCE and NAME.TARGET"));
  v(d.valid, off_trajectory(ConfigKey("data", "valid", "", "Validation files")));
  v(d.test, off_trajectory(ConfigKey("data", "test", "", "Test files")));
  v(d.source, ConfigKey("data", "source", "", "Source language, the extension of its files"));
  v(d.target, ConfigKey("data", "target", "", "Target language, the extension of its files"));
  v(d.lowercase, ConfigKey("data", "lowercase", "", "Lower-case all text"));
  v(d.tokenizer, ConfigKey("data", "tokenizer", "", "What a token is"));
  v(d.bpe_codes, ConfigKey("data", "bpe_codes", "", "File of merges in the directory (bpe)"));
  const char* dictionary = "fairseq dict.txt in the directory; empty: built from the training files";
  v(d.source_dictionary, ConfigKey("data", "source_dictionary", "", dictionary));
  v(d.target_dictionary, ConfigKey("data", "target_dictionary", "", dictionary));
  v(d.sentencepiece_model, ConfigKey("data", "sentencepiece_model", "",
                                     "SentencePiece model in the directory; empty: learned from the training files"));
  v(d.vocabulary, ConfigKey("data", "vocabulary", "pieces",
                            "Size of the vocabulary that both languages share (sentencepiece)", at_least(5)));
  v(d.train_pairs, ConfigKey("data", "train_pairs", "pairs", "Number of training pairs to use; 0: all", at_least(0)));
  v(d.valid_pairs, off_trajectory(ConfigKey("data", "valid_pairs", "pairs", "Number of validation pairs to use; 0: all",
                                            at_least(0))));
  v(d.max_length,
    ConfigKey("data", "max_length", "tokens", "Longest sentence of a training pair; 0: no limit", at_least(0)));
  v(d.max_ratio,
    ConfigKey("data", "max_ratio", "", "Largest ratio of a training pair's lengths; 0: no limit", at_least(0)));
  v(d.max_tokens, ConfigKey("train", "max_tokens", "tokens", "Largest batch, padding included", at_least(1)));
  v(d.beam, ConfigKey("validate", "beam", "hypotheses", "Width of the beam", at_least(1)));
  v(d.length_penalty, ConfigKey("validate", "length_penalty", "", "Exponent of the length penalty", at_least(0)));
  v(d.max_length_a, ConfigKey("validate", "max_length_a", "",
                              "a in the longest translation, floor(a * source tokens + b); the source counts its end, "
                              "the translation does not",
                              at_least(0)));
  v(d.max_length_b, ConfigKey("validate", "max_length_b", "tokens",
                              "b in the longest translation, floor(a * source tokens + b)", at_least(0)));
}

// Data of classification: images and batches.

enum class ImageTask { cifar10, cifar100, folder, shapes };
constexpr auto names_of(ImageTask) { return std::array{"cifar10", "cifar100", "folder", "shapes"}; }

constexpr std::int64_t kMostImageSide = 4096;

struct ImageConfig {
  ImageTask task = ImageTask::cifar10;
  std::string directory, augment;
  std::int64_t image_size = 32, train_images = 0, valid_images = 0;
  std::int64_t batch = 128, mix_off_epoch = 0;
  double mixup = 0, cutmix = 0;
  bool operator==(const ImageConfig&) const = default;
};

template <KeysOf<ImageConfig> Images, class Visitor>
void visit_keys(Images& i, const Visitor& v) {
  v(i.task, ConfigKey("data", "task", "", "Images from files of CIFAR or of a folder, or shapes that are drawn"));
  v(i.directory, ConfigKey("data", "directory", "",
                           "Directory of the files, below --data-dir or absolute; empty: as their archive names it"));
  v(i.image_size,
    ConfigKey("data", "image_size", "pixels", "Side that images are scaled to (folder)", within(1, kMostImageSide)));
  v(i.train_images, ConfigKey("data", "train_images", "images",
                              "Number of training images to use; 0: all, of shapes 50,000", at_least(0)));
  v(i.valid_images, ConfigKey("data", "valid_images", "images",
                              "Training images held out for validation (shapes: drawn in addition); 0: validate on the "
                              "test images",
                              at_least(0)));
  v(i.augment,
    ConfigKey("data", "augment", "",
              "How training images are changed at random, names with spaces between: crop4 (pixels), flip or "
              "flip_alternating, randaugment2m9 (operations, magnitude), cutout8 (pixels)"));
  v(i.batch, ConfigKey("train", "batch", "images", "Images of a batch", at_least(1)));
  v(i.mixup, ConfigKey("train", "mixup", "", "a of mixup's Beta(a, a); 0: no mixup", at_least(0)));
  v(i.cutmix, ConfigKey("train", "cutmix", "", "a of CutMix's Beta(a, a); 0: no CutMix", at_least(0)));
  v(i.mix_off_epoch,
    ConfigKey("train", "mix_off_epoch", "epochs", "Number of first epochs with mixup or CutMix; 0: all", at_least(0)));
}

enum class UpdateRule { adam, adamw, sgd };
constexpr auto names_of(UpdateRule) { return std::array{"adam", "adamw", "sgd"}; }

// Parameters that adaptive clipping leaves alone, and those that weight decay leaves alone.
enum class Unclipped { output, none };
constexpr auto names_of(Unclipped) { return std::array{"output", "none"}; }
enum class Undecayed { none, vectors };
constexpr auto names_of(Undecayed) { return std::array{"none", "vectors"}; }

constexpr auto values_of(DType) { return std::array{DType::f32, DType::bf16}; }  // of activations

struct TrainConfig {
  std::int64_t steps = 60000, epochs = 0;         // epochs above 0 replace steps
  std::int64_t warmup = 4000, warmup_epochs = 0;  // likewise
  std::int64_t accumulate = 1, seed = 1;
  UpdateRule optimizer = UpdateRule::adam;
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 1e-4;
  Undecayed no_decay = Undecayed::none;
  ScheduleShape schedule = ScheduleShape::inverse_sqrt;
  double lr = 5e-4, initial_lr = 1e-7, minimum_lr = 0;
  double clip = 0, agc = 0, label_smoothing = 0.1, average_decay = 0;
  Unclipped agc_exclude = Unclipped::output;
  bool average_statistics = false;
  DType dtype = DType::f32;
  OnNan on_nan = OnNan::abort;
  bool operator==(const TrainConfig&) const = default;
};

// Either epochs or updates are keys: updates, unless epochs are given.
template <KeysOf<TrainConfig> Train, class Visitor>
void visit_length_keys(Train& t, const Visitor& v) {
  const auto length = [&t](const ConfigKey& key) {
    return t.schedule == ScheduleShape::cosine ? key : off_trajectory(key);
  };
  const ConfigKey epochs("train", "epochs", "epochs", "How often to go through the data; 0: as train.steps says",
                         within(0, kMostOfASize));
  v(t.epochs, newer(length(epochs), t.epochs == 0));
  if (t.epochs == 0)
    v(t.steps, length(ConfigKey("train", "steps", "updates", "How many updates to make", at_least(1))));
  const ConfigKey warmup("train", "warmup_epochs", "epochs",
                         "Linear warm-up to the peak learning rate; 0: as train.warmup says", within(0, kMostOfASize));
  v(t.warmup_epochs, newer(warmup, t.warmup_epochs == 0));
  if (t.warmup_epochs == 0)
    v(t.warmup, ConfigKey("train", "warmup", "updates", "Linear warm-up to the peak learning rate", at_least(0)));
}

template <KeysOf<TrainConfig> Train, class Visitor>
void visit_optimizer_keys(Train& t, const Visitor& v) {
  v(t.optimizer, ConfigKey("train", "optimizer", "", "Update rule"));
  v(t.beta1, ConfigKey("train", "beta1", "", "Decay of the first moment (adam, adamw)", kFraction));
  v(t.beta2, ConfigKey("train", "beta2", "", "Decay of the second moment (adam, adamw)", kFraction));
  v(t.eps, ConfigKey("train", "eps", "", "Added to the square root of the second moment (adam, adamw)", above(0)));
  v(t.momentum, ConfigKey("train", "momentum", "", "Momentum (sgd)", kFraction));
  v(t.nesterov, ConfigKey("train", "nesterov", "", "Use Nesterov momentum (sgd)"));
  v(t.weight_decay,
    ConfigKey("train", "weight_decay", "", "Weight decay per update, times the learning rate", at_least(0)));
  const ConfigKey no_decay("train", "no_decay", "",
                           "Parameters that weight decay leaves alone: none, or biases, gains and learned positions");
  v(t.no_decay, newer(no_decay, t.no_decay == Undecayed::none));
}

template <KeysOf<TrainConfig> Train, class Visitor>
void visit_keys(Train& t, const Visitor& v) {
  visit_length_keys(t, v);
  v(t.accumulate, ConfigKey("train", "accumulate", "batches", "Batches per update", at_least(1)));
  visit_optimizer_keys(t, v);
  v(t.lr, ConfigKey("train", "lr", "", "Peak learning rate", above(0)));
  v(t.schedule, ConfigKey("train", "schedule", "", "Shape of the learning-rate schedule"));
  v(t.initial_lr, ConfigKey("train", "initial_lr", "", "Learning rate of the first update", at_least(0)));
  v(t.minimum_lr, ConfigKey("train", "minimum_lr", "", "Final learning rate of the cosine schedule", at_least(0)));
  v(t.clip, ConfigKey("train", "clip", "", "Clip the norm of the gradient to this; 0: do not clip", at_least(0)));
  v(t.agc,
    ConfigKey("train", "agc", "",
              "Largest norm of a unit's gradient relative to its weights' (adaptive clipping); 0: off", at_least(0)));
  v(t.agc_exclude, ConfigKey("train", "agc_exclude", "", "Parameters that agc leaves alone"));
  v(t.label_smoothing,
    ConfigKey("train", "label_smoothing", "", "Weight of the uniform distribution in label smoothing", kFraction));
  v(t.average_decay,
    ConfigKey("train", "average_decay", "", "Decay of the moving average of the weights; 0: no average", kFraction));
  v(t.average_statistics,
    newer(ConfigKey("train", "average_statistics", "", "Average the normalizers' running statistics with the weights"),
          !t.average_statistics));
  v(t.dtype, ConfigKey("train", "dtype", "", "Type of activations; weights and moments are f32"));
  v(t.seed, ConfigKey("train", "seed", "", "Seed of the initial weights, of dropout and of the order of the data",
                      at_least(0)));
  v(t.on_nan, ConfigKey("train", "on_nan", "", "What to do when a loss or gradient is not finite"));
}

struct ValidateConfig {
  std::int64_t every = 1000, patience = 0;
  bool operator==(const ValidateConfig&) const = default;
};

template <KeysOf<ValidateConfig> Validate, class Visitor>
void visit_keys(Validate& e, const Visitor& v) {
  v(e.every, ConfigKey("validate", "every", "updates", "Updates between validations", at_least(1)));
  v(e.patience, ConfigKey("validate", "patience", "validations",
                          "Validations without a better score before training stops; 0: never stop", at_least(0)));
}

struct OutputConfig {
  std::int64_t log_every = 100, save_every = 1000, keep = 5;
  bool operator==(const OutputConfig&) const = default;
};

template <KeysOf<OutputConfig> Output, class Visitor>
void visit_keys(Output& o, const Visitor& v) {
  v(o.log_every, ConfigKey("output", "log_every", "updates", "Updates between log lines", at_least(1)));
  v(o.save_every, ConfigKey("output", "save_every", "updates", "Updates between checkpoints", at_least(1)));
  v(o.keep, ConfigKey("output", "keep", "checkpoints", "Newest checkpoints to keep, beside the best", at_least(1)));
}

// Recording of normalizers (train/analyses/recorder.h).
struct RecordConfig {
  std::vector<std::int64_t> from;  // the first update of each phase, counted from the end if negative
  std::int64_t steps = 182;        // of each phase
  bool operator==(const RecordConfig&) const = default;
};

template <KeysOf<RecordConfig> Record, class Visitor>
void visit_keys(Record& r, const Visitor& v) {
  v(r.from, ConfigKey("record", "from", "updates",
                      "First updates of what is recorded of normalizers at the begin and at the end, the latter "
                      "negative: -200 is the 200th from the end"));
  v(r.steps, ConfigKey("record", "steps", "updates", "How many to record from each of them", at_least(1)));
}

}  // namespace foldgrad
