// Linear CKA between the layers of two models, summed over minibatches (Nguyen et al. 2021, "Do Wide and Deep Networks
// Learn the Same Things?", equations 2 to 4). For features X [n, p] and Y [n, q] of the same n examples:
//
//   K = X X^T, L = Y Y^T, both with zeros on the diagonal
//   HSIC1(K, L) = [tr(K L) + (1'K 1)(1'L 1) / ((n-1)(n-2)) - 2/(n-2) 1'K L 1] / (n (n-3))
//   CKA = mean HSIC1(K, L) / sqrt(mean HSIC1(K, K) mean HSIC1(L, L)), means over the minibatches
//
// HSIC1 is unbiased, so CKA does not depend on the size of a batch but for noise. It stays the same where features are
// rotated, scaled or moved.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace foldgrad {

constexpr std::int64_t kLeastCkaExamples = 4;  // HSIC1 divides by n - 3

// K of one minibatch.
struct Gram {
  std::int64_t examples = 0;
  std::vector<double> products;  // [n, n]
  std::vector<double> row_sums;  // K 1
  double sum = 0;                // 1'K 1
};

// Returns the Gram matrix of features [n, ...], floating, on the CPU. Throws std::invalid_argument for fewer than 4
// examples.
Gram gram_of(const Tensor& features);

// Throws std::invalid_argument for different numbers of examples.
double hsic1(const Gram& K, const Gram& L);

class MinibatchCka {
 public:
  // Adds the layers of both models on one minibatch; each call must have as many.
  void add(const std::vector<Gram>& a, const std::vector<Gram>& b);

  // Returns [layers of a][layers of b]. NaN where a layer's own HSIC is not positive: its features do not vary, or are
  // not finite.
  std::vector<std::vector<double>> values() const;

 private:
  std::vector<std::vector<double>> between_;  // sums over minibatches
  std::vector<double> of_a_, of_b_;
};

struct LayerOutput {
  std::string layer;
  Tensor values;  // [rows, ...], on the CPU: of each example as many rows as it has tokens
};

// Returns in the order of the forward pass: for every normalizer, by its site, y, unless that is x itself; for every
// sublayer of attention or feed-forward, by its scope, what its last linear layer gives without its bias, before the
// residual sum. Inputs lie on any device.
std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype);

// Returns, for x [N, C] and mask u8 [B, T], f64 [B, C]: the mean over the rows of each sentence's tokens, which are as
// many as its mask has ones. Rows are those of the tokens alone, or T for each sentence, the tokens first. Both are on
// the CPU. Throws std::invalid_argument for other shapes.
Tensor mean_over_tokens(const Tensor& x, const Tensor& mask);

}  // namespace foldgrad
