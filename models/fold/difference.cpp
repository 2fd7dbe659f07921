#include "models/fold/difference.h"

#include <algorithm>
#include <cmath>

#include "engine/graph/description.h"

namespace foldgrad {
namespace {

// The results of linear layers, by place. For example, "decoder.layers.0.ffn 1" is the second layer in its scope.
struct LayerResults {
  NamedTensors results;
  std::multimap<std::string, std::string> places;  // the key is the weight's name
  std::map<std::string, int> order;                // position of each place, and of each scope's first operation
};

LayerResults layer_results(Model& model, const NamedTensors& inputs, DType dtype) {
  LayerResults all;
  std::map<std::string, int> count;
  std::map<int, std::string> place_of;  // the key is the value's id
  Tape tape;
  tape.observe([&](const Node& node, const Tensor& y) {
    const auto d = Description::of(node);
    std::string place;
    const int number = int(all.order.size());
    all.order.emplace(node.scope(), number);
    if (d.weight >= 0 && tape.shape_of(node.inputs()[d.weight]).rank() == 2) {
      place = node.scope() + " " + std::to_string(count[node.scope()]++);
      if (const Parameter* weight = tape.parameter_of(node.inputs()[d.weight])) all.places.emplace(weight->name, place);
    } else if (d.weight < 0 && d.bias >= 0 && place_of.count(node.inputs()[0])) {
      place = place_of[node.inputs()[0]];
      if (!d.streams.empty()) {
        all.results.erase(place);  // the sum may absorb the bias, and folding may rescale the stream
        return;
      }
    } else {
      return;
    }
    place_of[node.output()] = place;
    all.order.emplace(place, number);
    all.results[place] = y.to(Device::cpu).to(DType::f64).clone();
  });
  model.forward(inputs, {.tape = tape, .dtype = dtype});
  return all;
}

double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }  // NaN is worst

}  // namespace

Difference difference(const Tensor& got, const Tensor& want) {
  FOLDGRAD_CHECK(got.shape() == want.shape(), "difference: shapes must be equal, got {} and {}", got.shape(),
                 want.shape());
  double most = 0, scale = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(got.data<double>()[i] - want.data<double>()[i]);
    if (std::isnan(off)) return {off, off};
    most = std::max(most, off);
    scale = std::max({scale, std::abs(want.data<double>()[i]), std::abs(got.data<double>()[i])});
  }
  return {most, most == 0 ? 0 : most / scale};
}

FoldDifferences fold_differences(Model& original, const FoldedModel& folded, const NamedTensors& inputs, DType dtype) {
  FoldDifferences all;
  all.logits = difference(inference_logits(*folded.model, inputs, dtype), inference_logits(original, inputs, dtype));
  const LayerResults want = layer_results(original, inputs, dtype), got = layer_results(*folded.model, inputs, dtype);
  for (const SiteReport& report : folded.reports)
    for (const std::string& name : report.into) {
      const auto [first, last] = got.places.equal_range(name);
      for (auto place = first; place != last; ++place) {
        const auto a = got.results.find(place->second), b = want.results.find(place->second);
        if (a == got.results.end() || b == want.results.end()) continue;
        if (want.order.at(place->second) < want.order.at(report.site)) continue;
        const Difference d = difference(a->second, b->second);
        Difference& most = all.sites[report.site];
        most = {worse(d.absolute, most.absolute), worse(d.relative, most.relative)};
      }
    }
  return all;
}

}  // namespace foldgrad
