#include "models/fold/weights.h"

namespace foldgrad {
namespace {

// Computes x <- A (x - [mean]) + add B for C values that are `stride` apart.
void apply_map(double* x, std::int64_t stride, const AffineMap& map, double add) {
  const std::int64_t C = map.channels();
  double mean = 0;
  if (map.centered) {
    for (std::int64_t c = 0; c < C; ++c) mean += x[c * stride];
    mean /= double(C);
  }
  for (std::int64_t c = 0; c < C; ++c) x[c * stride] = map.A[c] * (x[c * stride] - mean) + add * map.B[c];
}

}  // namespace

void fold_columns(const Tensor& W, const Tensor& b, const std::vector<ChannelMap>& maps) {
  const std::int64_t out = W.shape()[0], columns = out ? W.size() / out : 0;
  for (std::int64_t o = 0; o < out; ++o) {
    double* row = W.data<double>() + o * columns;
    for (const ChannelMap& w : maps) {
      const std::int64_t C = w.map.channels(), repeat = w.place.repeat;
      for (std::int64_t r = 0; r < repeat; ++r) {
        double* first = row + w.place.offset + r;
        double sum = 0, mean = 0;
        for (std::int64_t c = 0; c < C; ++c) sum += first[c * repeat] * w.map.B[c];
        if (b.defined()) b.data<double>()[o] += sum;
        for (std::int64_t c = 0; c < C; ++c) mean += first[c * repeat] *= w.map.A[c];  // [FOLD-1]
        if (!w.map.centered) continue;
        for (std::int64_t c = 0; c < C; ++c) first[c * repeat] -= mean / double(C);  // [FOLD-2]
      }
    }
  }
}

void fold_rows(const Tensor& W, const AffineMap& map) {  // [FOLD-3]
  const std::int64_t in = W.size() / W.shape()[0], C = map.channels();
  for (std::int64_t block = 0; block < W.shape()[0]; block += C)
    for (std::int64_t i = 0; i < in; ++i) apply_map(W.data<double>() + block * in + i, in, map, 0);
}

void fold_table(const Tensor& table, const AffineMap& map, double add) {
  for (std::int64_t at = 0; at < table.size(); at += map.channels()) apply_map(table.data<double>() + at, 1, map, add);
}

void divide_rows(const Tensor& W, const std::vector<double>& A) {
  const std::int64_t in = W.size() / W.shape()[0];
  for (std::int64_t i = 0; i < W.size(); ++i) W.data<double>()[i] /= A[i / in];  // [FOLD-5]
}

}  // namespace foldgrad
