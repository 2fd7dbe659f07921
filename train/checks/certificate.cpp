#include "train/checks/certificate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/fold/difference.h"
#include "train/checks/finite.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Difference& d) { return {{"absolute", d.absolute}, {"relative", d.relative}}; }

std::string normalizer_at(const Model& model, const std::string& site) {
  for (const Normalizer* norm : model.normalizers())
    if (norm->site() == site) return norm->info().name;
  return "none";
}

ordered_json json_of(const SiteReport& report, const Model& original, const Model& folded) {
  ordered_json site{{"site", report.site},
                    {"normalizer", normalizer_at(original, report.site)},
                    {"outcome", name(report.outcome)},
                    {"left", normalizer_at(folded, report.site)},
                    {"into", report.into},
                    {"kept", ordered_json::array()}};
  for (const KeptEdge& kept : report.kept) site["kept"].push_back({{"edge", kept.edge}, {"reason", kept.reason}});
  return site;
}

// Compares `folded` with its original in `dtype`. Throws NonFiniteError if a result is not finite.
FoldDifferences finite_differences(Model& original, const FoldedModel& folded, const Probe& probe, DType dtype) {
  const FoldDifferences all = fold_differences(original, folded, probe.inputs, dtype);
  if (std::isfinite(all.logits.absolute) &&
      std::ranges::all_of(all.sites, [](const auto& s) { return std::isfinite(s.second.absolute); }))
    return all;
  const std::string result = fmt::format("fold: a result of the model in {} ", name(dtype));
  if (!first_non_finite_operation(original, probe.inputs, dtype).empty())
    refuse_non_finite(result + "before folding", original, probe.inputs, dtype);
  refuse_non_finite(result + "after folding", *folded.model, probe.inputs, dtype);
}

}  // namespace

ordered_json certificate(Model& original, const FoldedModel& folded, const FoldOptions& options, const Probe& probe) {
  ordered_json all{{"format", "foldgrad certificate"}, {"format_version", 1}};
  all["options"] = {{"tied", name(options.tied)}, {"rescale_stream", options.rescale_stream}};
  all["inputs"] = {{"description", probe.description}, {"sha256", probe.digest}};
  const std::unique_ptr<Model> exact = original.copy(DType::f64, original.device());
  const FoldDifferences f64 = finite_differences(*exact, fold(*exact, options), probe, DType::f64),
                        f32 = finite_differences(original, folded, probe, DType::f32);
  all["difference"] = {{"f64", json_of(f64.logits)}, {"f32", json_of(f32.logits)}};
  all["sites"] = ordered_json::array();
  for (const SiteReport& report : folded.reports) {
    ordered_json site = json_of(report, original, *folded.model);
    if (f64.sites.count(report.site))
      site["difference"] = {{"f64", json_of(f64.sites.at(report.site))}, {"f32", json_of(f32.sites.at(report.site))}};
    all["sites"].push_back(std::move(site));
  }
  return all;
}

std::string summary(const ordered_json& certificate) {
  std::string text = certificate.at("sites").empty() ? "the model has no normalizers, so nothing is folded\n" : "";
  for (const ordered_json& site : certificate.at("sites")) {
    const auto into = site.at("into").get<std::vector<std::string>>();
    const auto left = site.at("left").get<std::string>();
    text +=
        fmt::format("{:<7} {:<44} {}{}{}\n", site.at("outcome").get<std::string>(), site.at("site").get<std::string>(),
                    into.empty() ? "" : "into ", fmt::join(into, ", "), left == "none" ? "" : "  (left: " + left + ")");
    for (const ordered_json& kept : site.at("kept"))
      text +=
          fmt::format("        not {}: {}\n", kept.at("edge").get<std::string>(), kept.at("reason").get<std::string>());
  }
  for (const char* dtype : {"f64", "f32"}) {
    const ordered_json& d = certificate.at("difference").at(dtype);
    text += fmt::format("largest logit difference in {}: {:.2g} ({:.2g} relative to the largest logit)\n", dtype,
                        d.at("absolute").get<double>(), d.at("relative").get<double>());
  }
  return text;
}

}  // namespace foldgrad
