// Checks for caller errors. Messages name the operation, the requirement with its numbers, and the value received. Do
// not include this in .cu files: fmt 9 does not compile under every nvcc, and kernels receive checked arguments.
#pragma once
#include <fmt/core.h>

#include <stdexcept>

namespace foldgrad {

// FOLDGRAD_CHECK(C == n, "layer_norm: gamma must have {} entries, got {}", n, C) throws std::invalid_argument
// unless C == n. The message is formatted only then.
#define FOLDGRAD_CHECK(condition, ...)                       \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      throw std::invalid_argument(fmt::format(__VA_ARGS__)); \
  } while (0)

}  // namespace foldgrad
