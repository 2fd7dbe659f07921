// Every key of a configuration, in order: what read.cpp and write.cpp read, write and explain.
#pragma once
#include "train/config/config.h"
#include "train/config/model_keys.h"

namespace foldgrad {

// `Config` is ExperimentConfig, or it const. Calls visitor(member, ConfigKey) for every key that its family has, the
// family first: a visitor may set it. Options of normalizers are not here but in normalizers(),
// models/normalizers/normalizer.h.
template <KeysOf<ExperimentConfig> Config, class Visitor>
void visit_config(Config& c, const Visitor& visitor) {
  const auto v = [&visitor](auto& member, ConfigKey key) {
    if (key.from_data) return;
    key.set_kind(member);
    if (key.section == "validate" || key.section == "output" || key.section == "record") key.trajectory = false;
    visitor(member, key);
  };
  // Configurations that were written before there were families do not name theirs, and stay what they were.
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

}  // namespace foldgrad
