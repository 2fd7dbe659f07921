#include "train/analyses/layer_outputs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/check.h"
#include "engine/graph/description.h"
#include "ops/concat/concat.h"

namespace foldgrad {

std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype) {
  std::set<std::string> sites;
  for (const Normalizer* norm : model.normalizers()) sites.insert(norm->site());
  std::vector<LayerOutput> outputs;
  // A normalizer may be several operations; the last one gives y.
  const auto keep = [&](const std::string& layer, const Tensor& y) {
    if (outputs.empty() || outputs.back().layer != layer) outputs.push_back({layer, {}});
    outputs.back().values = y;
  };
  Tensor linear;
  int linear_id = -1;
  Tape tape;  // recording, since a tape that does not shows nothing to its observer
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
  Tape tape(/*recording=*/false);
  std::vector<Var> all;
  for (const Tensor& part : parts) all.push_back(tape.constant(part));
  return concat(all, 0).value();
}

}  // namespace foldgrad
