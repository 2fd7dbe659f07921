// The metadata of a trace in tests/golden as options. Unknown keys and values are errors.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ops/power_norm/power_norm.h"

namespace foldgrad::testing {

struct TraceOptions {
  std::string layer;
  std::optional<ChannelNormOptions> channel;  // none for ln, rmsnorm, pn, pn_star
  std::optional<PowerNormOptions> power;      // of pn, pn_star
  double eps = 1e-5;
  bool masked = false;
  std::int64_t start_iters = 0, groups = 0;
};

inline TraceOptions trace_options(const std::map<std::string, std::string>& metadata) {
  const auto text = [&](const char* key, const char* otherwise) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string(otherwise) : found->second;
  };
  static const std::set<std::string> known{"layer",       "masked", "start_iters",  "alpha", "eps",
                                           "window",      "warmup", "groups",       "mode",  "filtration",
                                           "granularity", "ddof",   "hold_on_skip", "format"};
  for (const auto& [key, value] : metadata)
    if (!known.count(key)) throw std::invalid_argument("unknown key " + key);
  TraceOptions t;
  t.layer = text("layer", "");
  t.masked = text("masked", "0") == "1";
  t.eps = std::stod(text("eps", t.layer == "rmsnorm" ? "1e-6" : "1e-5"));
  t.start_iters = std::stoll(text("start_iters", "0"));
  if (t.layer == "pn") t.groups = std::stoll(text("groups", "1"));
  const std::map<std::string, ChannelNormOptions> methods{
      {"un", text("mode", "paper") == "reference" ? ChannelNormOptions::un_released() : ChannelNormOptions::un()},
      {"bn", ChannelNormOptions::bn()},
      {"mabn", ChannelNormOptions::mabn_released()}};
  if (t.layer == "ln" || t.layer == "rmsnorm") return t;
  if (t.layer == "pn" || t.layer == "pn_star") {
    PowerNormOptions o{.eps = t.eps};
    if (metadata.count("alpha")) o.alpha_forward = o.alpha_backward = std::stod(text("alpha", ""));
    if (metadata.count("warmup")) o.warmup = std::stoll(text("warmup", ""));
    t.power = o;
    return t;
  }
  ChannelNormOptions o = methods.at(t.layer);
  o.eps = t.eps;
  if (metadata.count("alpha")) o.alpha_forward = o.alpha_backward = std::stod(text("alpha", ""));
  if (metadata.count("window")) o.window_forward = o.window_backward = std::stoll(text("window", ""));
  if (metadata.count("warmup")) o.warmup = std::stoll(text("warmup", ""));
  o.filtration = text("filtration", "0") == "1";
  if (metadata.count("granularity"))
    o.granularity = std::map<std::string, Granularity>{{"channel", Granularity::channel},
                                                       {"layer_any", Granularity::layer_any},
                                                       {"layer_sum", Granularity::layer_sum},
                                                       {"pooled", Granularity::pooled}}
                        .at(text("granularity", ""));
  o.ddof = std::stoi(text("ddof", "1"));
  o.hold_on_skip = text("hold_on_skip", "0") == "1";
  t.channel = o;
  return t;
}

}  // namespace foldgrad::testing
