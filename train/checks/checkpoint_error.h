// The error for models and checkpoints that cannot be used.
#pragma once
#include <stdexcept>

namespace foldgrad {

// An error whose message is "PATH: the reason".
class CheckpointError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace foldgrad
