// The configuration of an experiment: one TOML file with a table per section. keys.h lists every key with its unit, its
// help and its values; reading, writing and the help follow from that list. The defaults are fairseq's for IWSLT14
// de-en (facebookresearch/fairseq, examples/translation).
#pragma once
#include <array>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <vector>

#include "models/cct/config.h"
#include "models/transformer/config.h"
#include "models/vit/config.h"

namespace foldgrad {

struct DataConfig {
  std::string task = "text", directory, train = "train", valid = "valid", test = "test", source = "de", target = "en";
  std::string tokenizer = "words", bpe_codes, source_dictionary, target_dictionary, sentencepiece_model;
  std::int64_t vocabulary = 8000;
  bool lowercase = false;
  std::int64_t train_pairs = 0, valid_pairs = 0, max_length = 0;
  double max_ratio = 0;
  bool operator==(const DataConfig&) const = default;
};

struct ImageConfig {
  std::string task = "cifar10", directory, augment;
  std::int64_t image_size = 32, train_images = 0, valid_images = 0;
  bool operator==(const ImageConfig&) const = default;
};

struct TrainConfig {
  std::int64_t steps = 60000, max_tokens = 4096, batch = 128, accumulate = 1, warmup = 4000, seed = 1;
  std::int64_t epochs = 0, warmup_epochs = 0;  // above 0: in the place of `steps` and `warmup`
  std::string optimizer = "adam", schedule = "inverse_sqrt", dtype = "f32", on_nan = "abort";
  double lr = 5e-4, initial_lr = 1e-7, minimum_lr = 0, beta1 = 0.9, beta2 = 0.98, eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 1e-4, clip = 0, agc = 0, label_smoothing = 0.1, average_decay = 0;
  std::string agc_exclude = "output", no_decay = "none";
  bool average_statistics = false;
  // Of images alone.
  double mixup = 0, cutmix = 0;
  std::int64_t mix_off_epoch = 0;
  bool operator==(const TrainConfig&) const = default;
};

struct ValidateConfig {
  std::int64_t every = 1000, beam = 5, patience = 0, max_length_b = 10;
  double length_penalty = 1, max_length_a = 1.2;
  bool operator==(const ValidateConfig&) const = default;
};

struct OutputConfig {
  std::int64_t log_every = 100, save_every = 1000, keep = 5;
  bool operator==(const OutputConfig&) const = default;
};

// What is recorded of normalizers (train/analyses/recorder.h).
struct RecordConfig {
  std::vector<std::int64_t> from;  // the first update of each phase, from the end where negative; none: nothing
  std::int64_t steps = 182;        // of each phase
  bool operator==(const RecordConfig&) const = default;
};

// Which keys there are is the family's choice; members that it has no keys for stay as they are.
struct ExperimentConfig {
  std::string family = "transformer";  // a row of train/tasks/families.h
  TransformerConfig model;             // all but the vocabularies and pad, which the data decide; [norm] is part of it
  VitConfig vit;                       // the same of family = "vit", all but what is known of images
  CctConfig cct;
  // By normalizer, what the tables [norm.NAME] give: normalizer_options of blocks() are those of the chosen one.
  std::map<std::string, std::map<std::string, std::string>> norm_options;
  DataConfig data;
  ImageConfig images;  // of families that learn from images: their keys [data]
  TrainConfig train;
  ValidateConfig validate;
  OutputConfig output;
  RecordConfig record;

  bool of_images() const;
  // Of the model of this family.
  BlockConfig& blocks();
  const BlockConfig& blocks() const { return const_cast<ExperimentConfig&>(*this).blocks(); }
  const std::string& data_directory() const { return of_images() ? images.directory : data.directory; }
  bool operator==(const ExperimentConfig&) const = default;
};

// The families that have keys of their own, and where these are; visit_model_keys() (model_keys.h) lists those of each.
template <class Model>
struct FamilyKeys {
  const char* name;
  Model ExperimentConfig::*keys;
};
inline constexpr std::tuple kFamilyKeys{FamilyKeys<TransformerConfig>{"transformer", &ExperimentConfig::model},
                                        FamilyKeys<VitConfig>{"vit", &ExperimentConfig::vit},
                                        FamilyKeys<CctConfig>{"cct", &ExperimentConfig::cct}};
inline constexpr auto kFamiliesWithKeys =
    std::apply([](const auto&... rows) { return std::array{rows.name...}; }, kFamilyKeys);

// visitor(what the keys of the family's model are in). Families that a program registers use those of a Transformer.
template <class Experiment, class Visitor>
void visit_model(Experiment& config, const Visitor& visitor) {
  bool found = false;
  const auto visit = [&](const auto& row) {
    if (config.family == row.name) found = true, visitor(config.*row.keys);
  };
  std::apply([&](const auto&... rows) { (visit(rows), ...); }, kFamilyKeys);
  if (!found) visitor(config.model);
}

template <class Model>
const Model& model_keys(const ExperimentConfig& config) {
  return config.*std::get<FamilyKeys<Model>>(kFamilyKeys).keys;
}

inline bool ExperimentConfig::of_images() const {
  bool images = false;
  visit_model(*this, [&]<class Model>(const Model&) { images = std::is_base_of_v<ImageModelConfig, Model>; });
  return images;
}

inline BlockConfig& ExperimentConfig::blocks() {
  BlockConfig* all = nullptr;
  visit_model(*this, [&](BlockConfig& blocks) { all = &blocks; });
  return *all;
}

// What the author of a configuration has to mend: "PLACE: what is wrong", PLACE being FILE:LINE or --set SECTION.KEY.
class ConfigError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Defaults, then the file, then `settings` in their order, each SECTION.KEY=VALUE, with or without quotes around text.
// Throws ConfigError for what is not TOML, keys that do not exist (naming the nearest) and values of another type or
// out of range; FileError when the file cannot be read. What concerns several keys at once, such as heads that divide
// the width, is checked where they are used.
ExperimentConfig read_config(const std::string& path, const std::vector<std::string>& settings = {});
// The same of `text`, with `name` for the file in messages.
ExperimentConfig parse_config(const std::string& text, const std::string& name,
                              const std::vector<std::string>& settings = {});

// Every key with its value, as TOML: parse_config() of it gives `config` again. Options of normalizers that were not
// given stand there as comments, with their defaults. Text that is not UTF-8 throws std::invalid_argument.
std::string config_text(const ExperimentConfig& config);

// All keys with defaults, values and help.
std::string config_help();

// The keys that decide the trained numbers, with their values. When to validate, log and save, and how far to train,
// are not among them; `train.steps` is with the cosine schedule.
std::map<std::string, std::string> trajectory_keys(const ExperimentConfig& config);
// SHA-256 of them.
std::string config_hash(const ExperimentConfig& config);
// "train.lr: 0.0005 before, 0.001 now" for every trajectory key that differs.
std::vector<std::string> trajectory_changes(const ExperimentConfig& before, const ExperimentConfig& now);

}  // namespace foldgrad
