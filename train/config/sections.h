// The sections of a configuration except the model's: the members of each, followed by their keys.
//
// visit_keys(section, visitor) calls visitor(member, ConfigKey) for every key. A member is std::int64_t, double, bool,
// std::string, a list of std::int64_t or of std::string, or an enumeration with names (models/options/names.h).
#pragma once
#include "train/config/key.h"
#include "train/loop/schedule.h"
#include "train/loop/trainer_options.h"

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

void visit_keys(KeysOf<DataConfig> auto& d, const auto& v) {
  const auto data = keys_in("data", v), aside = keys_in("data", v, off_trajectory), train = keys_in("train", v),
             validate = keys_in("validate", v);
  data(d.task, "task", "", "Text from files, or German number words");
  data(d.directory, "directory", "", "Directory of the files, below --data-dir or absolute");
  data(d.train, "train", "", "Training files: NAME.SOURCE and NAME.TARGET");
  aside(d.valid, "valid", "", "Validation files");
  aside(d.test, "test", "", "Test files");
  data(d.source, "source", "", "Source language, the extension of its files");
  data(d.target, "target", "", "Target language, the extension of its files");
  data(d.lowercase, "lowercase", "", "Lower-case all text");
  data(d.tokenizer, "tokenizer", "", "What a token is");
  data(d.bpe_codes, "bpe_codes", "", "File of merges in the directory (bpe)");
  const char* dictionary = "fairseq dict.txt in the directory; empty: built from the training files";
  data(d.source_dictionary, "source_dictionary", "", dictionary);
  data(d.target_dictionary, "target_dictionary", "", dictionary);
  data(d.sentencepiece_model, "sentencepiece_model", "",
       "SentencePiece model in the directory; empty: learned from the training files");
  data(d.vocabulary, "vocabulary", "pieces", "Size of the vocabulary that both languages share (sentencepiece)",
       at_least(5));
  data(d.train_pairs, "train_pairs", "pairs", "Number of training pairs to use; 0: all", at_least(0));
  aside(d.valid_pairs, "valid_pairs", "pairs", "Number of validation pairs to use; 0: all", at_least(0));
  data(d.max_length, "max_length", "tokens", "Longest sentence of a training pair; 0: no limit", at_least(0));
  data(d.max_ratio, "max_ratio", "", "Largest ratio of a training pair's lengths; 0: no limit", at_least(0));
  train(d.max_tokens, "max_tokens", "tokens", "Largest batch, padding included", at_least(1));
  validate(d.beam, "beam", "hypotheses", "Width of the beam", within(1, 1000));
  validate(d.length_penalty, "length_penalty", "", "Exponent of the length penalty", at_least(0));
  validate(d.max_length_a, "max_length_a", "",
           "a in the longest translation, floor(a * source tokens + b); the source counts its end, "
           "the translation does not",
           at_least(0));
  validate(d.max_length_b, "max_length_b", "tokens", "b in the longest translation, floor(a * source tokens + b)",
           at_least(0));
}

// Data of classification: images and batches.

enum class ImageTask { cifar10, cifar100, folder, shapes };
constexpr auto names_of(ImageTask) { return std::array{"cifar10", "cifar100", "folder", "shapes"}; }

// The pixels that crops show outside of an image.
enum class CropFill { mean, zero };
constexpr auto names_of(CropFill) { return std::array{"mean", "zero"}; }

constexpr std::int64_t kMostImageSide = 4096;

struct ImageConfig {
  ImageTask task = ImageTask::cifar10;
  std::string directory, augment;
  CropFill fill = CropFill::mean;
  std::int64_t image_size = 32, train_images = 0, valid_images = 0;
  std::int64_t batch = 128, mix_off_epoch = 0;
  double mixup = 0, cutmix = 0;
  bool operator==(const ImageConfig&) const = default;
};

void visit_keys(KeysOf<ImageConfig> auto& i, const auto& v) {
  const auto data = keys_in("data", v), train = keys_in("train", v);
  data(i.task, "task", "", "Images from CIFAR's files, from a folder, or drawn shapes");
  data(i.directory, "directory", "",
       "Directory of the files, below --data-dir or absolute; empty: as their archive names it");
  data(i.image_size, "image_size", "pixels", "Side that images are scaled to (folder)", within(1, kMostImageSide));
  data(i.train_images, "train_images", "images", "Number of training images to use; 0: all, of shapes 50,000",
       at_least(0));
  data(i.valid_images, "valid_images", "images",
       "Training images held out for validation (shapes: drawn in addition); 0: validate on the test images",
       at_least(0));
  data(i.augment, "augment", "",
       "Random changes of training images, names separated by spaces: crop4 (pixels), flip or "
       "flip_alternating, randaugment2m9 (operations, magnitude), cutout8 (pixels)");
  keys_in("data", v, newer)(i.fill, "fill", "",
                            "Pixels that crops show outside of an image: the mean of the training images, or zero, "
                            "black, as with torchvision's RandomCrop");
  train(i.batch, "batch", "images", "Images of a batch", at_least(1));
  train(i.mixup, "mixup", "", "a of mixup's Beta(a, a); 0: no mixup", at_least(0));
  train(i.cutmix, "cutmix", "", "a of CutMix's Beta(a, a); 0: no CutMix", at_least(0));
  train(i.mix_off_epoch, "mix_off_epoch", "epochs", "Number of first epochs with mixup or CutMix; 0: all", at_least(0));
}

// Data of a language model: a text, and batches of windows.

enum class LanguageTask { language };
constexpr auto names_of(LanguageTask) { return std::array{"language"}; }

enum class TextTokenizer { characters, bpe };
constexpr auto names_of(TextTokenizer) { return std::array{"characters", "bpe"}; }

struct LanguageConfig {
  LanguageTask task = LanguageTask::language;
  std::string directory, train, valid, test;
  TextTokenizer tokenizer = TextTokenizer::characters;
  std::int64_t vocabulary = 1000, batch = 64;
  bool operator==(const LanguageConfig&) const = default;
};

void visit_keys(KeysOf<LanguageConfig> auto& l, const auto& v) {
  const auto data = keys_in("data", v), aside = keys_in("data", v, off_trajectory), train = keys_in("train", v);
  data(l.task, "task", "", "Text, whose next token is predicted");
  data(l.directory, "directory", "", "Directory of the files, below --data-dir or absolute");
  data(l.train, "train", "",
       "File of text; empty: all files NAME.txt and NAME.md of the directory except data.valid and data.test");
  data(l.valid, "valid", "", "Validation text; empty: the last tenth of the training text");
  aside(l.test, "test", "", "Text for `foldgrad eval`; empty: the validation text");
  data(l.tokenizer, "tokenizer", "", "Tokens: characters, or pieces of byte-pair encoding");
  data(l.vocabulary, "vocabulary", "pieces", "Size of the vocabulary, learned from the training text (bpe)",
       at_least(5));
  train(l.batch, "batch", "sequences", "Sequences of a batch, of model.context tokens each", at_least(1));
}

enum class UpdateRule { adam, adamw, sgd };
constexpr auto names_of(UpdateRule) { return std::array{"adam", "adamw", "sgd"}; }

// Parameters without weight decay.
enum class Undecayed { none, vectors };
constexpr auto names_of(Undecayed) { return std::array{"none", "vectors"}; }

// The output layer when training starts from a model.
enum class Head { automatic, keep, fresh };
constexpr auto names_of(Head) { return std::array{"auto", "keep", "new"}; }

constexpr auto values_of(DType) { return std::array{DType::f32, DType::bf16}; }  // of activations

struct TrainConfig : TrainerOptions {
  std::int64_t steps = 60000, epochs = 0;         // epochs above 0 replace steps
  std::int64_t warmup = 4000, warmup_epochs = 0;  // warmup_epochs above 0 replace warmup
  UpdateRule optimizer = UpdateRule::adam;
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 1e-4;
  Undecayed no_decay = Undecayed::none;
  ScheduleShape schedule = ScheduleShape::inverse_sqrt;
  double lr = 5e-4, initial_lr = 1e-7, minimum_lr = 0;
  std::string from;  // path of a model to start from; empty: none
  Head head = Head::automatic;
  bool reset_iterations = true;
  std::vector<std::string> rates, freeze;
  std::int64_t shards = 0;
  bool operator==(const TrainConfig&) const = default;
};

// Visits the keys of epochs, and those of updates unless epochs are given.
void visit_length_keys(KeysOf<TrainConfig> auto& t, const auto& v) {
  const auto length = [&t](const ConfigKey& key) {
    return t.schedule == ScheduleShape::cosine ? key : off_trajectory(key);
  };
  v(t.epochs, newer(length(ConfigKey("train", "epochs", "epochs", "Passes through the data; 0: use train.steps",
                                     within(0, kMostOfASize)))));
  if (t.epochs == 0)
    v(t.steps, length(ConfigKey("train", "steps", "updates", "How many updates to make", at_least(1))));
  keys_in("train", v, newer)(t.warmup_epochs, "warmup_epochs", "epochs",
                             "Linear warm-up to the peak learning rate; 0: use train.warmup", within(0, kMostOfASize));
  if (t.warmup_epochs == 0)
    keys_in("train", v)(t.warmup, "warmup", "updates", "Linear warm-up to the peak learning rate", at_least(0));
}

void visit_keys(KeysOf<TrainConfig> auto& t, const auto& v) {
  const auto train = keys_in("train", v), newer_key = keys_in("train", v, newer);
  visit_length_keys(t, v);
  train(t.accumulate, "accumulate", "batches", "Batches per update", within(1, kMostOfASize));
  train(t.optimizer, "optimizer", "", "Update rule");
  train(t.beta1, "beta1", "", "Decay of the first moment (adam, adamw)", kFraction);
  train(t.beta2, "beta2", "", "Decay of the second moment (adam, adamw)", kFraction);
  train(t.eps, "eps", "", "Added to the square root of the second moment (adam, adamw)", above(0));
  train(t.momentum, "momentum", "", "Momentum (sgd)", kFraction);
  train(t.nesterov, "nesterov", "", "Use Nesterov momentum (sgd)");
  train(t.weight_decay, "weight_decay", "", "Weight decay per update, times the learning rate", at_least(0));
  newer_key(t.no_decay, "no_decay", "",
            "Parameters without weight decay: none, or biases, gains and learned positions");
  train(t.lr, "lr", "", "Peak learning rate", above(0));
  train(t.schedule, "schedule", "", "Shape of the learning-rate schedule");
  train(t.initial_lr, "initial_lr", "", "Learning rate of the first update", at_least(0));
  train(t.minimum_lr, "minimum_lr", "", "Final learning rate of the cosine schedule", at_least(0));
  train(t.clip, "clip", "", "Clip the norm of the gradient to this; 0: do not clip", at_least(0));
  train(t.agc, "agc", "", "Largest norm of a unit's gradient relative to its weights' (adaptive clipping); 0: off",
        at_least(0));
  train(t.agc_exclude, "agc_exclude", "", "Parameters without agc");
  train(t.label_smoothing, "label_smoothing", "", "Weight of the uniform distribution in label smoothing", kFraction);
  train(t.average_decay, "average_decay", "", "Decay of the moving average of the weights; 0: no average", kFraction);
  newer_key(t.average_statistics, "average_statistics", "",
            "Average the normalizers' running statistics with the weights");
  train(t.dtype, "dtype", "", "Type of activations; weights and moments are f32");
  train(t.seed, "seed", "", "Seed of the initial weights, of dropout and of the order of the data", at_least(0));
  train(t.on_nan, "on_nan", "", "What to do when a loss or gradient is not finite");
  newer_key(t.from, "from", "",
            "Model to begin from: a model directory, a checkpoint, or a run; empty: random weights");
  newer_key(t.head, "head", "", "Output layer with train.from: auto makes a new one if the classes differ");
  newer_key(t.reset_iterations, "reset_iterations", "",
            "With train.from, normalizers count iterations from 0, so that their warm-up runs again");
  newer_key(t.rates, "rates", "",
            "PATTERN=FACTOR: factors of the learning rate, by names of parameters; of several patterns that match, the "
            "last counts");
  newer_key(t.freeze, "freeze", "", "Patterns of names of parameters that are not trained");
  newer_key(t.shards, "shards", "parts", "Parts of a batch, one for each rank, a power of two; 0: one for each process",
            within(0, 1024));
  keys_in("norm", v, newer)(t.sync_norms, "sync", "", "With ranks, statistics per channel are of the whole batch");
}

struct ValidateConfig {
  std::int64_t every = 1000, patience = 0;
  bool operator==(const ValidateConfig&) const = default;
};

void visit_keys(KeysOf<ValidateConfig> auto& e, const auto& v) {
  const auto validate = keys_in("validate", v);
  validate(e.every, "every", "updates", "Updates between validations", at_least(1));
  validate(e.patience, "patience", "validations",
           "Validations without a better score before training stops; 0: never stop", at_least(0));
}

struct OutputConfig {
  std::int64_t log_every = 100, save_every = 1000, keep = 5;
  bool operator==(const OutputConfig&) const = default;
};

void visit_keys(KeysOf<OutputConfig> auto& o, const auto& v) {
  const auto output = keys_in("output", v);
  output(o.log_every, "log_every", "updates", "Updates between log lines", at_least(1));
  output(o.save_every, "save_every", "updates", "Updates between checkpoints", at_least(1));
  output(o.keep, "keep", "checkpoints", "Newest checkpoints to keep, in addition to the best", at_least(1));
}

// Recording of normalizers (train/analyses/recorder.h).
struct RecordConfig {
  std::vector<std::int64_t> from;  // the first update of each phase, counted from the end if negative
  std::int64_t steps = 182;        // of each phase
  bool operator==(const RecordConfig&) const = default;
};

void visit_keys(KeysOf<RecordConfig> auto& r, const auto& v) {
  const auto record = keys_in("record", v);
  record(r.from, "from", "updates",
         "First update of each recording; negative ones count from the end: -200 is the 200th from the end");
  record(r.steps, "steps", "updates", "Number of updates in each recording", within(1, kMostOfASize));
}

}  // namespace foldgrad
