#include "train/config/config.h"

#include "engine/contains.h"

namespace foldgrad {
namespace {

const Family& family_with_keys(const std::string& name) {
  return contains(family_names(), name) ? family(name) : default_family();
}

}  // namespace

ExperimentConfig::ExperimentConfig(const std::string& family)
    : family(family), model(family_with_keys(family).model), data(family_with_keys(family).data) {
  const BlockConfig& defaults = blocks();
  if (!defaults.normalizer_options.empty()) norm_options[defaults.normalizer] = defaults.normalizer_options;
}

std::string ExperimentConfig::data_directory() const {
  std::string directory;
  Section copy = data;
  copy.visit([&directory](Member member, const ConfigKey& key) {
    if (key.full_name() == "data.directory") directory = *std::get<std::string*>(member);
  });
  return directory;
}

void visit_members(ExperimentConfig& c, const KeyVisitor& visitor) {
  // Older configurations do not name a family, and their hash must not change.
  ConfigKey family("model", "family", "", "Family of the model");
  family.trajectory = c.family != default_family().name;
  const std::string before = c.family;
  visitor(&c.family, family);
  if (c.family != before) {
    ExperimentConfig defaults(c.family);
    c.model = std::move(defaults.model), c.data = std::move(defaults.data);
    c.norm_options = std::move(defaults.norm_options);
  }
  const KeyVisitor off = [&visitor](Member member, const ConfigKey& key) { visitor(member, off_trajectory(key)); };
  c.model.visit(visitor);
  c.data.visit([&](Member member, const ConfigKey& key) { (key.section == "validate" ? off : visitor)(member, key); });
  visit_members(c.train, visitor);
  visit_members(c.validate, off);
  visit_members(c.output, off);
  visit_members(c.record, off);
}

}  // namespace foldgrad
