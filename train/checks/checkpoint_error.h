// The error of what loads models.
#pragma once
#include <stdexcept>

namespace foldgrad {

// A model or checkpoint that cannot be used: "PATH: what is wrong".
class CheckpointError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace foldgrad
