#include "models/fold/site.h"

namespace foldgrad {
namespace {

// What can be taken away from a normalizer that keeps its statistic: see Normalizer::inference().
AffineMap gain_of(Normalizer& norm) {
  AffineMap map = AffineMap::identity(norm.channels());
  for (const Parameter* p : norm.parameters()) {
    const std::vector<double> values = p->value.to(Device::cpu).to(DType::f64).values<double>();
    if (p->name == norm.site() + ".weight") map.A = values;
    if (p->name == norm.site() + ".bias") map.B = values;
    if (p->name == norm.site() + ".scale") map.A.assign(map.A.size(), values[0]);
  }
  return map;
}

}  // namespace

FoldSite fold_site(Normalizer& norm, DType dtype, Device device) {
  const std::optional<InferenceForm> form = norm.inference();
  const bool offline = form && form->offline();
  FoldSite site{norm.site(), offline, offline ? form->map : gain_of(norm)};
  if (!form) return site;
  Tape tape;
  const Var x = tape.variable(Tensor::zeros({1, 1, norm.channels()}, dtype, device));
  const Graph alone = graph_of(tape, {norm.apply(x, {})}, {norm.site()});
  if (alone.nodes.empty()) return site;  // x itself
  site.recording = alone.nodes[0].parts;
  site.arguments = alone.nodes[0].arguments;
  return site;
}

}  // namespace foldgrad
