// The configuration of an experiment: a TOML file with a table per section, and optionally a base file. sections.h and
// the config.h of the family and of the task define every key with its unit, help and values; the code that reads and
// writes keys and shows their help is derived from these definitions. The defaults are fairseq's for IWSLT14 de-en
// (facebookresearch/fairseq, examples/translation).
#pragma once
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "train/config/family.h"
#include "train/config/sections.h"

namespace foldgrad {

struct ExperimentConfig {
  // Sets a family's defaults. An unknown family gets the keys of the default family.
  explicit ExperimentConfig(const std::string& family = default_family().name);

  std::string family;
  Section model;  // the configuration of the family's models, except values that the data decide; includes [norm]
  Section data;   // the configuration of the family's task
  // The tables [norm.NAME], by NAME. Initially there is only the table of the family's default normalizer, if that
  // normalizer has options. blocks().normalizer_options is the chosen normalizer's table.
  std::map<std::string, std::map<std::string, std::string>> norm_options;
  TrainConfig train;
  ValidateConfig validate;
  OutputConfig output;
  RecordConfig record;

  BlockConfig& blocks() { return model.blocks(); }
  const BlockConfig& blocks() const { return const_cast<ExperimentConfig&>(*this).blocks(); }
  std::string data_directory() const;  // data.directory
  bool operator==(const ExperimentConfig&) const = default;
};

// Calls visitor(Member, ConfigKey) for every key, in order. The family comes first: if the visitor sets it, the model's
// and the task's sections are replaced. Options of normalizers are not visited; normalizers() lists them
// (models/normalizers/normalizer.h).
void visit_members(ExperimentConfig& config, const KeyVisitor& visitor);
// Like visit_members(), but calls visitor(member, ConfigKey) with the member itself, of any type in Member.
void visit_config(ExperimentConfig& config, const auto& visitor) {
  visit_members(config, [&visitor](Member member, const ConfigKey& key) {
    std::visit([&](auto* m) { visitor(*m, key); }, member);
  });
}

// An error in a configuration: "PLACE: the reason", where PLACE is FILE:LINE or --set SECTION.KEY.
class ConfigError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads the defaults, then the base file that the file's key `base` names (relative to the file), then the file, then
// `settings` in order, each SECTION.KEY=VALUE, with or without quotes around text. Throws ConfigError for invalid TOML,
// unknown keys (the message suggests the nearest), values that have the wrong type or are out of range, and base files
// that cannot be read or form a cycle; FileError if the file itself cannot be read. Checks the relations between
// lengths and between learning rates. Other relations between keys, such as that heads must divide the width, are
// checked where the keys are used.
ExperimentConfig read_config(const std::string& path, const std::vector<std::string>& settings = {});
// Reads `text` as if it were the content of a file at the path `name`.
ExperimentConfig parse_config(const std::string& text, const std::string& name,
                              const std::vector<std::string>& settings = {});

// A key of a configuration with its value, as TOML.
struct KeyWithValue {
  ConfigKey key;
  std::string value;
};
// Return the keys of a configuration's family, in order, with their values or their defaults. Throw
// std::invalid_argument if a string is not UTF-8.
std::vector<KeyWithValue> keys_of(ExperimentConfig config);
std::vector<KeyWithValue> default_keys(const std::string& family);

// Returns every key with its value, as TOML, from which parse_config() can restore `config`. Normalizer options that
// were not given appear as comments with their defaults. Throws std::invalid_argument if a string is not UTF-8.
std::string config_text(const ExperimentConfig& config);

// Returns all keys with defaults, values and help.
std::string config_help();
// Returns the first SECTION.KEY whose KEY is `name`; `name` may have - in place of _. Returns an empty string if there
// is none.
std::string key_named(std::string name);
// Returns a message of the model or normalizer with the names of members replaced by keys: "vit: heads must divide
// width = 8, got 3" becomes "model.heads must divide model.width = 8, got 3". Returns other messages unchanged.
std::string with_keys(const ExperimentConfig& config, const std::string& message);

// The warm-up of the chosen normalizer, for warnings: the number of iterations, the keys that set it ("norm.un.warmup =
// 4000"), and the normalizer's behaviour until then.
struct NormWarmup {
  std::int64_t iterations = 0;
  std::string keys = {}, meanwhile = {};
};
NormWarmup norm_warmup(const BlockConfig& config);

// Returns the keys that affect the trained weights, with their values. Leaves out keys that only determine when to
// validate, log and save, and how long to train; with the cosine schedule, `train.steps` is included.
std::map<std::string, std::string> trajectory_keys(const ExperimentConfig& config);
// Returns the SHA-256 of trajectory_keys().
std::string config_hash(const ExperimentConfig& config);
// Returns "train.lr was 0.0005 and is now 0.001" for every trajectory key that differs.
std::vector<std::string> trajectory_changes(const ExperimentConfig& before, const ExperimentConfig& now);

}  // namespace foldgrad
