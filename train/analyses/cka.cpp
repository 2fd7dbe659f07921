#include "train/analyses/cka.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "engine/check.h"
#include "engine/cpu/threads.h"
#include "engine/gemm/gemm.h"
#include "engine/graph/description.h"

namespace foldgrad {
namespace {

// Subtracts the mean over the examples. HSIC1 does not change, but avoids the difference of large numbers. The means
// are computed as offsets from the first example, so that constant features become exact zeros, not rounding errors.
Tensor centred(const Tensor& features) {
  const std::int64_t n = features.shape()[0], p = n ? features.size() / n : 0;
  const Tensor x = features.to(DType::f64).clone();
  double* values = x.data<double>();
  std::vector<double> mean(p);
  for (std::int64_t i = n - 1; i >= 0; --i)
    for (std::int64_t k = 0; k < p; ++k) {
      values[i * p + k] -= values[k];
      mean[k] += values[i * p + k] / double(n);
    }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < p; ++k) values[i * p + k] -= mean[k];
  return x;
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

Gram gram_of(const Tensor& features) {
  const std::int64_t n = features.shape().rank() > 0 ? features.shape()[0] : 0;
  FOLDGRAD_CHECK(n >= kLeastCkaExamples, "CKA needs at least {} examples in a minibatch, got {}", kLeastCkaExamples, n);
  const Tensor x = centred(features);
  Gram K{n, std::vector<double>(n * n), std::vector<double>(n), 0};
  gemm(Device::cpu, DType::f64, {.transpose_b = true, .m = n, .n = n, .k = x.size() / n}, K.products.data(), x.raw(),
       x.raw());
  for (std::int64_t i = 0; i < n; ++i) {
    K.products[i * n + i] = 0;
    for (std::int64_t j = 0; j < n; ++j) K.row_sums[i] += K.products[i * n + j];
    K.sum += K.row_sums[i];
  }
  return K;
}

double hsic1(const Gram& K, const Gram& L) {
  FOLDGRAD_CHECK(K.examples == L.examples, "CKA needs the same examples on both sides, got {} and {}", K.examples,
                 L.examples);
  const auto n = double(K.examples);
  return (product(K.products, L.products) + K.sum * L.sum / ((n - 1) * (n - 2)) -
          2 / (n - 2) * product(K.row_sums, L.row_sums)) /
         (n * (n - 3));
}

void MinibatchCka::add(const std::vector<Gram>& a, const std::vector<Gram>& b) {
  between_.resize(a.size(), std::vector<double>(b.size()));
  of_a_.resize(a.size());
  of_b_.resize(b.size());
  for (std::size_t j = 0; j < b.size(); ++j) of_b_[j] += hsic1(b[j], b[j]);
  parallel(std::int64_t(a.size()), [&](std::int64_t i) {
    const Gram& of_i = a[std::size_t(i)];
    of_a_[std::size_t(i)] += hsic1(of_i, of_i);
    for (std::size_t j = 0; j < b.size(); ++j) between_[std::size_t(i)][j] += hsic1(of_i, b[j]);
  });
}

std::vector<std::vector<double>> MinibatchCka::values() const {
  std::vector<std::vector<double>> all = between_;
  for (std::size_t i = 0; i < of_a_.size(); ++i)
    for (std::size_t j = 0; j < of_b_.size(); ++j) {
      const bool varies = of_a_[i] > 0 && of_b_[j] > 0;
      all[i][j] = varies ? all[i][j] / std::sqrt(of_a_[i] * of_b_[j]) : std::numeric_limits<double>::quiet_NaN();
    }
  return all;
}

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
  Tape tape;  // recording: only a recording tape calls its observer
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

Tensor mean_over_rows(const Tensor& x, const Tensor& lengths) {
  const Segments rows(lengths.values<std::int64_t>());
  FOLDGRAD_CHECK(x.shape().rank() == 2 && x.shape()[0] == rows.rows(), "x must be [{}, C], got {}", rows.rows(),
                 x.shape());
  const std::int64_t C = x.shape()[1];
  const Tensor values = x.to(DType::f64), mean = Tensor::zeros({rows.count(), C}, DType::f64);
  const double* row = values.data<double>();
  for (std::int64_t e = 0; e < rows.count(); ++e) {
    double* of_e = mean.data<double>() + e * C;
    for (std::int64_t i = 0; i < rows.length(e); ++i, row += C)
      for (std::int64_t c = 0; c < C; ++c) of_e[c] += row[c] / double(rows.length(e));
  }
  return mean;
}

}  // namespace foldgrad
