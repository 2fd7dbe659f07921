// The average of models (fairseq's scripts/average_checkpoints.py).
//
//   [AVG-1]  floating point: a = (x_1 + ... + x_n) / n, summed in f64
//   [AVG-2]  integers, such as counters: floor((x_1 + ... + x_n) / n)
//
// Buffers of normalizers are averaged too, each with its own: running statistics, windows, what a backward pass keeps.
// So an averaged model of unified normalization has the mean of the running statistics, as the published one has.
#pragma once
#include <vector>

#include "engine/named_tensors.h"

namespace foldgrad {

// Averages in the dtypes of the first. Throws std::invalid_argument for none, and for names, shapes or dtypes that
// differ.
NamedTensors average(const std::vector<NamedTensors>& models);

}  // namespace foldgrad
