#include "train/analyses/cka.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "engine/check.h"
#include "engine/gemm/gemm.h"

namespace foldgrad {
namespace {

// Less their mean over the examples, which changes no HSIC1 but spares it the difference of large numbers. The means
// are taken as distances from the first example, so that features which do not vary become zeros, and not their
// rounding.
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
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < a.size(); ++i) {
    of_a_[i] += hsic1(a[i], a[i]);
    for (std::size_t j = 0; j < b.size(); ++j) between_[i][j] += hsic1(a[i], b[j]);
  }
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

}  // namespace foldgrad
