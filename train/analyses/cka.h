// Linear CKA between the layers of two models, summed over minibatches (Nguyen et al. 2021, "Do Wide and Deep Networks
// Learn the Same Things?", equations 2 to 4). For features X [n, p] and Y [n, q] of the same n examples:
//
//   K = X X^T, L = Y Y^T, both with zeros on the diagonal
//   HSIC1(K, L) = [tr(K L) + (1'K 1)(1'L 1) / ((n-1)(n-2)) - 2/(n-2) 1'K L 1] / (n (n-3))
//   CKA = mean HSIC1(K, L) / sqrt(mean HSIC1(K, K) mean HSIC1(L, L)), means over the minibatches
//
// HSIC1 is unbiased, so apart from noise CKA does not depend on the batch size. It does not change if features are
// rotated, scaled or shifted.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace foldgrad {

constexpr std::int64_t kLeastCkaExamples = 4;  // HSIC1 divides by n - 3

// The matrix K of one minibatch.
struct Gram {
  std::int64_t examples = 0;
  std::vector<double> products;  // [n, n]
  std::vector<double> row_sums;  // K 1
  double sum = 0;                // 1'K 1
};

// Returns the Gram matrix of features [n, ...], floating, on the CPU. Throws std::invalid_argument if n < 4.
Gram gram_of(const Tensor& features);

// Throws std::invalid_argument if K and L are of different numbers of examples.
double hsic1(const Gram& K, const Gram& L);

class MinibatchCka {
 public:
  // Adds one minibatch: the layers of both models. Every call must have the same number of layers.
  void add(const std::vector<Gram>& a, const std::vector<Gram>& b);

  // Returns [layers of a][layers of b]. NaN if a layer's HSIC with itself is not positive: its features are constant or
  // not finite.
  std::vector<std::vector<double>> values() const;

 private:
  std::vector<std::vector<double>> between_;  // sums over minibatches
  std::vector<double> of_a_, of_b_;
};

struct LayerOutput {
  std::string layer;
  Tensor values;  // [rows, ...], on the CPU: a row for each token of each example
};

// Returns, in the order of the forward pass: the y of every normalizer by its site, unless y is x itself; and for every
// attention or feed-forward sublayer, by its scope, the output of its last linear layer without bias, before the
// residual sum. Inputs may be on any device.
std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype);

// Returns f64 [B, C], the mean of x [N, C] over the rows of each example, whose numbers are `lengths`, i64 [B]. Both
// are on the CPU. Throws std::invalid_argument for other shapes.
Tensor mean_over_rows(const Tensor& x, const Tensor& lengths);

}  // namespace foldgrad
