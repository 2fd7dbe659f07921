#include "train/analyses/layer_outputs.h"

#include <cstring>
#include <set>

#include "engine/check.h"
#include "engine/graph/description.h"

namespace foldgrad {
namespace {

class LayerObserver {
 public:
  explicit LayerObserver(Model& model) {
    for (const Normalizer* norm : model.normalizers()) sites_.insert(norm->site());
  }

  void see(const Node& node, const Tensor& y) {
    const auto d = Description::of(node);
    // A normalizer may be several operations; the last one gives y.
    if (sites_.count(node.scope()))
      keep(node.scope(), y);
    else if (d.weight >= 0)
      linear_ = y, linear_id_ = node.output();
    else if (d.bias >= 0 && !d.streams.empty() && node.inputs()[0] == linear_id_)
      keep(node.scope(), linear_);
  }

  std::vector<LayerOutput> outputs() const {
    std::vector<LayerOutput> all;
    for (const LayerOutput& o : outputs_) all.push_back({o.layer, o.values.to(Device::cpu)});
    return all;
  }

 private:
  void keep(const std::string& layer, const Tensor& y) {
    if (outputs_.empty() || outputs_.back().layer != layer) outputs_.push_back({layer, {}});
    outputs_.back().values = y;
  }

  std::set<std::string> sites_;
  std::vector<LayerOutput> outputs_;
  Tensor linear_;
  int linear_id_ = -1;
};

}  // namespace

std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype) {
  LayerObserver observer(model);
  Tape tape;  // recording, since a tape that does not shows nothing to its observer
  tape.observe([&](const Node& node, const Tensor& y) { observer.see(node, y); });
  model.forward(to(inputs, model.device()), {.tape = tape, .dtype = dtype});
  return observer.outputs();
}

Tensor mean_over_positions(const Tensor& x, const Tensor& mask) {
  const Shape& shape = x.shape();
  FOLDGRAD_CHECK(shape.rank() == 3 && mask.shape() == (Shape{shape[0], shape[1]}),
                 "x must be [B, T, C] and its mask [B, T], got {} and {}", shape, mask.shape());
  const std::int64_t B = shape[0], T = shape[1], C = shape[2];
  const Tensor values = x.to(DType::f64), mean = Tensor::zeros({B, C}, DType::f64);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::uint8_t* real = mask.data<std::uint8_t>() + b * T;
    const double count = double(T - std::count(real, real + T, 0));
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t c = 0; real[t] && c < C; ++c)
        mean.data<double>()[b * C + c] += values.data<double>()[(b * T + t) * C + c] / count;
  }
  return mean;
}

Tensor stacked(const std::vector<Tensor>& parts) {
  FOLDGRAD_CHECK(!parts.empty(), "there must be rows to stack");
  std::int64_t n = 0;
  for (const Tensor& part : parts) n += part.shape()[0];
  const std::int64_t width = parts[0].size() / parts[0].shape()[0];
  const Tensor all = Tensor::empty({n, width}, parts[0].dtype());
  auto* to = static_cast<char*>(all.raw());
  for (const Tensor& part : parts) {
    FOLDGRAD_CHECK(part.dtype() == all.dtype() && part.size() == part.shape()[0] * width,
                   "rows must have {} values of {}, got {}", width, name(all.dtype()), describe(part));
    std::memcpy(to, part.raw(), std::size_t(part.bytes()));
    to += part.bytes();
  }
  return all;
}

}  // namespace foldgrad
