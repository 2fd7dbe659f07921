// The average of models (fairseq's scripts/average_checkpoints.py).
//
//   [AVG-1]  floating point: a = (x_1 + ... + x_n) / n, summed in f64
//   [AVG-2]  integers, such as counters: floor((x_1 + ... + x_n) / n)
//
// Buffers of normalizers are averaged in the same way: running statistics, windows, statistics of backward passes. So
// an averaged model of unified normalization has the mean of the running statistics, as the published one has.
#pragma once
#include <vector>

#include "engine/named_tensors.h"

namespace foldgrad {

// The result has the dtypes of the first model. Throws std::invalid_argument if there are no models, and for names,
// shapes or dtypes that differ.
NamedTensors average(const std::vector<NamedTensors>& models);

}  // namespace foldgrad
