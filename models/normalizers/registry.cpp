// All normalizers by name.
#include <fmt/format.h>

#include "models/normalizers/kinds.h"
#include "models/options/nearest_name.h"

namespace foldgrad {
namespace {

// The kinds of normalizers. A normalizer refers to its kind, whose address must therefore not change.
struct Registry {
  Registry() {
    for (auto group : {channel_normalizers, mixed_normalizers, row_normalizers, stateless_normalizers})
      for (NormalizerKind& kind : group()) add(std::move(kind));
  }
  void add(NormalizerKind kind) {
    const std::string name = kind.info.name;
    FOLDGRAD_CHECK(!name.empty(), "register_normalizer: the name must not be empty");
    FOLDGRAD_CHECK(kinds.emplace(name, std::move(kind)).second, "register_normalizer: \"{}\" is already registered",
                   name);
    infos.clear();
    for (const auto& [_, known] : kinds) infos.push_back(known.info);
  }

  std::map<std::string, NormalizerKind> kinds;
  std::vector<NormalizerInfo> infos;
};

Registry& registry() {
  static Registry all;
  return all;
}

const NormalizerKind& kind_of(const std::string& name) {
  const auto& kinds = registry().kinds;
  if (const auto found = kinds.find(name); found != kinds.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, _] : kinds) names.push_back(known);
  throw std::invalid_argument(fmt::format("there is no normalizer \"{}\"{} There are: {}", name,
                                          did_you_mean(name, names, "\"", "."), fmt::join(names, ", ")));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const std::string& name, const std::map<std::string, std::string>& options,
                                            const std::string& site, std::int64_t channels, DType dtype,
                                            Device device) {
  FOLDGRAD_CHECK(channels >= 1, "{} ({}): channels must be at least 1, got {}", site, name, channels);
  FOLDGRAD_CHECK(is_floating(dtype), "{} ({}): parameters must be f32, f64 or bf16, got {}", site, name,
                 foldgrad::name(dtype));
  const NormalizerKind& kind = kind_of(name);
  const NormalizerOptions parsed(name, kind.info.options, options);
  auto norm = kind.make({kind.info, parsed, site, channels, dtype, device});
  const auto form = norm->inference();
  FOLDGRAD_CHECK((form && form->offline()) == kind.info.offline(),
                 "{} ({}): inference() must {} an offline form, to agree with the normalizer's kind", site, name,
                 kind.info.offline() ? "return" : "not return");
  return norm;
}

void register_normalizer(NormalizerKind kind) {
  FOLDGRAD_CHECK(kind.make, "register_normalizer: {}: make must be a function", kind.info.name);
  registry().add(std::move(kind));
}

const std::vector<NormalizerInfo>& normalizers() { return registry().infos; }

const NormalizerInfo& normalizer_info(const std::string& name) { return kind_of(name).info; }

}  // namespace foldgrad
