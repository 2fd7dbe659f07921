// A device that has no more memory.
#pragma once
#include <cstddef>
#include <stdexcept>
#include <string>

namespace foldgrad {

// "memory: the host has no 1024 bytes left"
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory(const std::string& where, std::size_t bytes)
      : std::runtime_error("memory: " + where + " has no " + std::to_string(bytes) + " bytes left") {}
  // With what is known besides.
  explicit OutOfMemory(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace foldgrad
