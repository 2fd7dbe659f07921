#include "train/analyses/layer_outputs.h"

#include <set>

#include "engine/graph/description.h"

namespace foldgrad {

std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype) {
  std::set<std::string> sites;
  for (const Normalizer* norm : model.normalizers()) sites.insert(norm->site());
  std::vector<LayerOutput> outputs;
  // A normalizer may consist of several operations; the last one computes y.
  const auto keep = [&](const std::string& layer, const Tensor& y) {
    if (outputs.empty() || outputs.back().layer != layer) outputs.push_back({layer, {}});
    outputs.back().values = y;
  };
  Tensor linear;
  int linear_id = -1;
  Tape tape;  // must record, since only a recording tape calls its observer
  tape.observe([&](const Node& node, const Tensor& y) {
    const auto d = Description::of(node);
    if (sites.count(node.scope()))
      keep(node.scope(), y);
    else if (d.weight >= 0)
      linear = y, linear_id = node.output();
    else if (d.bias >= 0 && !d.streams.empty() && node.inputs()[0] == linear_id)
      keep(node.scope(), linear);
  });
  model.forward(inputs, {.tape = tape, .dtype = dtype});
  for (LayerOutput& o : outputs) o.values = o.values.to(Device::cpu);
  return outputs;
}

}  // namespace foldgrad
