// The table of model families. A row has the keys of a family's models, the models' task, and functions that make such
// models. The library's rows are in train/families.cpp; make_family() (train/tasks/families.h) makes a row.
#pragma once
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/blocks/keys.h"
#include "models/model.h"
#include "train/config/section.h"

namespace foldgrad {

struct TaskKind;  // defined in train/tasks/families.h

struct Family {
  std::string name;  // the value of model.family in a configuration, and of Model::family()
  const TaskKind* task;
  Section model, data;  // the default values of the model's and of the task's keys

  // Write and read config.json, whose format is in docs/model_directory.md. from_json is strict: it throws
  // std::invalid_argument if a key is missing, unknown or out of range.
  nlohmann::ordered_json (*to_json)(const Model& model);
  Section (*from_json)(const nlohmann::json& config);
  // Makes a model, with initial weights if there is a seed. Throws std::invalid_argument for an invalid configuration.
  std::unique_ptr<Model> (*make)(const Section& model, std::optional<std::uint64_t> seed, DType dtype, Device device);
  // See models/blocks/keys.h.
  Section (*smallest)(const Section& model);
  ExpectedParameters (*expected_parameters)(const Section& model);
};

// Throws std::invalid_argument if the name is unknown; the message has the nearest name and all names.
const Family& family(const std::string& name);
inline const Family& family_of(const Model& model) { return family(model.family()); }
// Returns the family of configurations that do not name one.
const Family& default_family();
std::vector<std::string> family_names();

// Adds a row. Call it at the start of the program, from one thread. Throws std::invalid_argument if the name is taken.
void register_family(Family family);

// Returns the library's rows, the default family's first.
std::deque<Family> library_families();

}  // namespace foldgrad
