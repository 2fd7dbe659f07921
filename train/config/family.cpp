#include "train/config/family.h"

#include <fmt/ranges.h>

#include "engine/check.h"
#include "engine/contains.h"
#include "models/options/nearest_name.h"

namespace foldgrad {
namespace {

// The families are in a deque, so that references to them stay valid when others are added.
std::deque<Family>& families() {
  static std::deque<Family> all = library_families();
  return all;
}

}  // namespace

const Family& family(const std::string& name) {
  for (const Family& f : families())
    if (f.name == name) return f;
  throw std::invalid_argument(fmt::format("there is no model.family \"{}\"{} There are: {}", name,
                                          did_you_mean(name, family_names(), "\"", "."),
                                          fmt::join(family_names(), ", ")));
}

const Family& default_family() { return families().front(); }

std::vector<std::string> family_names() {
  std::vector<std::string> all;
  for (const Family& f : families()) all.push_back(f.name);
  return all;
}

void register_family(Family family) {
  FOLDGRAD_CHECK(!contains(family_names(), family.name), "register_family: \"{}\" is already registered", family.name);
  families().push_back(std::move(family));
}

}  // namespace foldgrad
