// The configuration of an experiment: a TOML file with a table per section, and possibly a base. sections.h and
// model_keys.h define every key with its unit, its help and its values; reading, writing and the help follow from
// these. The defaults are fairseq's for IWSLT14 de-en (facebookresearch/fairseq, examples/translation).
#pragma once
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "train/config/model_keys.h"
#include "train/config/sections.h"

namespace foldgrad {

// A configuration with the keys of its family's model and task; the members of other families stay as they are.
struct ExperimentConfig {
  std::string family = "transformer";  // a row of train/tasks/families.h
  TransformerConfig model;             // without the vocabularies and pad, which the data decide; includes [norm]
  VitConfig vit;                       // without the members that the images decide
  CctConfig cct;
  GptConfig gpt;
  // The tables [norm.NAME], by NAME. blocks().normalizer_options is the chosen normalizer's table.
  std::map<std::string, std::map<std::string, std::string>> norm_options;
  DataConfig data;          // of families that translate
  ImageConfig images;       // of families that classify images
  LanguageConfig language;  // of families that predict text
  TrainConfig train;
  ValidateConfig validate;
  OutputConfig output;
  RecordConfig record;

  // Return the parts that belong to the family's model and task.
  BlockConfig& blocks();
  const BlockConfig& blocks() const { return const_cast<ExperimentConfig&>(*this).blocks(); }
  const std::string& data_directory() const;
  bool operator==(const ExperimentConfig&) const = default;
};

// The families with keys, in the order of the help.
inline constexpr std::array kFamiliesWithKeys{"transformer", "vit", "cct", "gpt"};

// Returns visitor(section of the model, section of the task); visit_keys() lists the keys of each. Families that a
// program registers use the first one's.
decltype(auto) visit_family(KeysOf<ExperimentConfig> auto& config, const auto& visitor) {
  if (config.family == "vit") return visitor(config.vit, config.images);
  if (config.family == "cct") return visitor(config.cct, config.images);
  if (config.family == "gpt") return visitor(config.gpt, config.language);
  return visitor(config.model, config.data);
}

// Calls visitor(member, ConfigKey) for every key of the configuration's family, in order, the family first: a visitor
// may set it. `Config` is ExperimentConfig, const or not. Options of normalizers are not here but in normalizers(),
// models/normalizers/normalizer.h.
void visit_config(KeysOf<ExperimentConfig> auto& c, const auto& visitor) {
  const auto v = [&visitor]<class Member>(Member& member, ConfigKey key) {
    if (key.from_data) return;
    key.set_kind(member);
    if (key.section == "validate" || key.section == "output" || key.section == "record") key.trajectory = false;
    // Arrays of three numbers always come from the data.
    if constexpr (!std::is_same_v<std::remove_const_t<Member>, std::array<double, 3>>) visitor(member, key);
  };
  // Older configurations do not name a family and must keep their hash.
  const ConfigKey family("model", "family", "", "Family of the model");
  v(c.family, c.family == "transformer" ? off_trajectory(family) : family);
  visit_family(c, [&v](auto& model, auto& task) {
    visit_keys(model, v);
    visit_keys(task, v);
  });
  visit_keys(c.train, v);
  visit_keys(c.validate, v);
  visit_keys(c.output, v);
  visit_keys(c.record, v);
}

inline BlockConfig& ExperimentConfig::blocks() {
  return visit_family(*this, [](BlockConfig& blocks, auto&) -> BlockConfig& { return blocks; });
}

inline const std::string& ExperimentConfig::data_directory() const {
  return visit_family(*this, [](const auto&, const auto& task) -> const std::string& { return task.directory; });
}

// An error in a configuration: "PLACE: what is wrong", where PLACE is FILE:LINE or --set SECTION.KEY.
class ConfigError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads the defaults, then the base file that the file's key `base` names (relative to the file), then the file, then
// `settings` in order, each SECTION.KEY=VALUE, with or without quotes around text. Throws ConfigError for invalid TOML,
// unknown keys (naming the nearest), values of another type or out of range, and bases that cannot be read or form a
// circle; FileError if the file itself cannot be read. It compares the keys of lengths and of learning rates; other
// relations between keys, such as heads that divide the width, are checked where the keys are used.
ExperimentConfig read_config(const std::string& path, const std::vector<std::string>& settings = {});
// Reads `text` as the content of a file at the path `name`.
ExperimentConfig parse_config(const std::string& text, const std::string& name,
                              const std::vector<std::string>& settings = {});

// A key of a configuration with its value, as TOML.
struct KeyWithValue {
  ConfigKey key;
  std::string value;
};
// Return the keys of a configuration's family, in order, with their values or with their defaults. Throws
// std::invalid_argument for text that is not UTF-8.
std::vector<KeyWithValue> keys_of(const ExperimentConfig& config);
std::vector<KeyWithValue> default_keys(const std::string& family);

// Returns every key with its value, as TOML: parse_config() of it gives `config` again. Options of normalizers that
// were not given are comments, with their defaults. Throws std::invalid_argument for text that is not UTF-8.
std::string config_text(const ExperimentConfig& config);

// Returns all keys with defaults, values and help.
std::string config_help();
// Returns the first SECTION.KEY whose KEY is `name`, with - for _. Empty if there is none.
std::string key_named(std::string name);

// The warm-up of the chosen normalizer, for warnings: its iterations, the keys that set them, as "norm.un.warmup =
// 4000", and the normalizer's behaviour until then.
struct NormWarmup {
  std::int64_t iterations = 0;
  std::string keys = {}, meanwhile = {};
};
NormWarmup norm_warmup(const BlockConfig& config);

// Returns the keys that decide the trained numbers, with their values. Keys that decide when to validate, log and save
// and how far to train are not among them; `train.steps` is, with the cosine schedule.
std::map<std::string, std::string> trajectory_keys(const ExperimentConfig& config);
// Returns the SHA-256 of trajectory_keys().
std::string config_hash(const ExperimentConfig& config);
// Returns "train.lr was 0.0005, is now 0.001" for every trajectory key that differs.
std::vector<std::string> trajectory_changes(const ExperimentConfig& before, const ExperimentConfig& now);

}  // namespace foldgrad
