#include "train/analyses/layer_outputs.h"

#include <algorithm>
#include <cstring>
#include <numeric>
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
  model.forward(inputs, {.tape = tape, .dtype = dtype});
  return observer.outputs();
}

Tensor mean_over_tokens(const Tensor& x, const Tensor& mask) {
  FOLDGRAD_CHECK(x.shape().rank() == 2 && mask.shape().rank() == 2,
                 "x must be [N, C] and its mask [B, T], got {} and {}", x.shape(), mask.shape());
  const std::int64_t N = x.shape()[0], C = x.shape()[1], B = mask.shape()[0], T = mask.shape()[1];
  const std::vector<std::uint8_t> real = mask.values<std::uint8_t>();
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < B; ++b)
    lengths.push_back(T - std::count(real.begin() + b * T, real.begin() + (b + 1) * T, std::uint8_t(0)));
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t(0));
  FOLDGRAD_CHECK(N == tokens || N == B * T, "x must have a row for each of {} tokens or {} places, got {}", tokens,
                 B * T, N);
  const Tensor values = x.to(DType::f64), mean = Tensor::zeros({B, C}, DType::f64);
  const double* row = values.data<double>();
  for (std::int64_t b = 0; b < B; ++b) {
    double* of_b = mean.data<double>() + b * C;
    for (std::int64_t i = 0; i < lengths[std::size_t(b)]; ++i)
      for (std::int64_t c = 0; c < C; ++c) of_b[c] += row[i * C + c] / double(lengths[std::size_t(b)]);
    row += (N == tokens ? lengths[std::size_t(b)] : T) * C;
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
