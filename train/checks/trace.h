// Traces, which record a run of one normalizer step by step, and their replay. docs/traces.md describes the format.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

struct TracePlace {
  std::int64_t step;                // counted from 1
  std::vector<std::int64_t> index;  // index into the array of that step, counted from 0
  double got, want;
};

struct TraceDifference {
  std::string array;                     // "y", "dx", "dgamma", "state.run_var", ...
  double largest = 0;                    // |got - want| / (1 + |want|); infinity if either is NaN
  std::int64_t step = 1;                 // the step with the largest difference, counted from 1
  std::optional<TracePlace> first = {};  // the first difference above the tolerance; may cause later ones
};

struct TraceReport {
  std::string layer;
  std::int64_t steps;
  Shape shape;  // the shape of x in one step
  std::vector<TraceDifference> differences;

  double largest() const;
};

// Runs the recorded inputs through the normalizer, forward and backward, in `dtype`, and compares the results with the
// recorded ones. `tolerance` decides which difference is `first`. Throws FileError if the file cannot be read or is not
// a trace.
TraceReport replay_trace(const std::string& path, DType dtype, Device device, double tolerance);

}  // namespace foldgrad
