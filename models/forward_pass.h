// The settings of a forward pass, for all layers of a model.
#pragma once
#include "models/normalizers/normalizer.h"
#include "models/normalizers/parameter_as.h"
#include "ops/dropout/dropout.h"

namespace foldgrad {

class PackedWeights;  // defined in models/blocks/packed_weights.h

// Returns the random stream of a place in a model: the FNV-1a hash of the place's name.
inline std::uint32_t random_stream(const std::string& place) {
  std::uint32_t hash = 2166136261u;
  for (unsigned char c : place) hash = (hash ^ c) * 16777619u;
  return hash;
}

struct ForwardPass {
  Tape& tape;
  DType dtype;  // type of the activations
  bool training = false;
  bool without_dropout = false;  // turns off dropout in training, so that statistics match those at inference
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  PackedWeights* packed = nullptr;        // for linear layers at inference on the CPU; null to use the unpacked weights
  std::vector<Var>* penalties = nullptr;  // in training, rbn appends its scalar loss terms here
  // Set if the inputs are this rank's part of a training batch. Null if they are the whole batch.
  Communicator* communicator = nullptr;
  bool synchronous_norms = true;  // with a communicator, channel statistics cover the whole batch

  // Returns the context for a normalizer whose input consists of the sequences `rows`.
  NormContext norm(const Segments& rows) const {
    return {.training = training,
            .samples = &rows,
            .penalties = penalties,
            .communicator = synchronous_norms ? communicator : nullptr};
  }
  Var use(Parameter& parameter) const { return parameter_as(tape, parameter, dtype); }
  double dropout(double p) const { return training && !without_dropout ? p : 0; }
  Random random(std::uint32_t stream) const { return {seed, stream, step}; }
  // Returns the random numbers for rows that start at row first_row of the batch (Segments::first_row()), so that a row
  // receives the same numbers however the batch is divided. One Philox block serves eight elements.
  Random random(std::uint32_t stream, std::int64_t first_row, std::int64_t columns) const {
    FOLDGRAD_CHECK(first_row == 0 || columns % 8 == 0,
                   "parallel: on several ranks, the width of a layer must be a multiple of 8, got {}", columns);
    return {seed, stream, step, std::uint64_t(first_row * columns / 8)};
  }
};

}  // namespace foldgrad
