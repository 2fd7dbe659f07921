#include "models/blocks/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/check.h"
#include "engine/contains.h"
#include "models/normalizers/normalizer.h"
#include "models/options/nearest_name.h"

namespace foldgrad {

void require_positive(const char* family, std::initializer_list<std::pair<const char* const, std::int64_t>> counts) {
  for (const auto& [key, value] : counts)
    FOLDGRAD_CHECK(value >= 1, "{}: {} must be at least 1, got {}", family, key, value);
}

void require_choice(const char* family, const char* key, const std::string& value,
                    const std::vector<std::string>& choices) {
  FOLDGRAD_CHECK(contains(choices, value), "{}: {} must be one of {}, got \"{}\"", family, key,
                 fmt::join(choices, ", "), value);
}

void BlockConfig::validate(const char* family) const {
  require_positive(family, {{"width", width}, {"ffn_width", ffn_width}, {"heads", heads}});
  FOLDGRAD_CHECK(width % heads == 0, "{}: heads must divide width = {}, got {}", family, width, heads);
  FOLDGRAD_CHECK(width / heads <= 128,
                 "{}: heads must be at least {} so that each has at most 128 of {} channels, got {}", family,
                 (width + 127) / 128, width, heads);
  FOLDGRAD_CHECK(!weight_standardization || ffn_width >= 2,
                 "{}: ffn_width must be at least 2 with weight_standardization, got {}", family, ffn_width);
  require_choice(family, "standardization_scope", standardization_scope, kStandardizationScopes);
  using Probability = std::pair<const char*, double>;
  for (const auto& [key, value] : {Probability{"dropout", dropout},
                                   {"attention_dropout", attention_dropout},
                                   {"activation_dropout", activation_dropout},
                                   {"drop_path", drop_path}})
    FOLDGRAD_CHECK(value >= 0 && value < 1, "{}: {} must be in [0, 1), got {}", family, key, value);
  require_choice(family, "activation", activation, activation_names());
  const auto require_post_norm = [&](const std::string& key, const std::string& name) {
    FOLDGRAD_CHECK(!pre_norm || !normalizer_info(name).post_norm_only,
                   "{}: pre_norm must be off with {} = {}, which works only with post-norm", family, key, name);
  };
  require_post_norm("normalizer", normalizer);
  for (const auto& [site, name] : normalizer_at) require_post_norm(site, name);
}

bool BlockConfig::standardizes(BlockMatrix matrix) const {
  if (standardization_scope == "qkv_fc1" && matrix != BlockMatrix::qkv && matrix != BlockMatrix::fc1) return false;
  if (standardization_scope == "out_ffn" && matrix == BlockMatrix::qkv) return false;
  if (standardization_scope == "ffn" && matrix != BlockMatrix::fc1 && matrix != BlockMatrix::fc2) return false;
  return weight_standardization;
}

void BlockConfig::validate_sites(const char* family, const std::vector<Normalizer*>& normalizers) const {
  std::vector<std::string> sites;
  for (const Normalizer* norm : normalizers) sites.push_back(norm->site());
  for (const auto& [site, name] : normalizer_at)
    FOLDGRAD_CHECK(contains(sites, site), "{}: normalizer_at: there is no site \"{}\"{}", family, site,
                   did_you_mean(site, sites, "\""));
}

std::vector<std::string> BlockConfig::activation_names() {
  return {std::begin(kActivationNames), std::end(kActivationNames)};
}

Activation BlockConfig::activation_function() const {
  for (Activation a : kActivations)
    if (activation == name(a)) return a;
  throw std::invalid_argument(fmt::format("there is no activation \"{}\"", activation));
}

}  // namespace foldgrad
