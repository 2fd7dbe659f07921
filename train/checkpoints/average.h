// Averages models, as fairseq's scripts/average_checkpoints.py does.
//
//   [AVG-1]  floating point: a = (x_1 + ... + x_n) / n, summed in f64
//   [AVG-2]  integers, such as counters: floor((x_1 + ... + x_n) / n)
//
// The normalizers' buffers are averaged in the same way: running statistics, windows and statistics of backward passes.
// So an averaged model with Unified Normalization has the mean of the running statistics, like the published model.
#pragma once
#include <vector>

#include "engine/named_tensors.h"

namespace foldgrad {

// Returns, for each name, the average of the models' tensors. Throws std::invalid_argument if there are no models, or
// if their names, shapes or dtypes differ.
NamedTensors average(const std::vector<NamedTensors>& models);

}  // namespace foldgrad
