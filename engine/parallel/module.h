// Libraries of ours that lie beside the program and are opened when they are wanted, so that it starts where what they
// link is missing.
#pragma once
#include <string>
#include <utility>

namespace foldgrad {

// Returns a function of a library, or null and why there is none.
std::pair<void*, std::string> find_in_module(const char* library, const char* function);
template <class Function>
std::pair<Function*, std::string> find_in_module(const char* library, const char* function) {
  const auto [found, trouble] = find_in_module(library, function);
  return {reinterpret_cast<Function*>(found), trouble};
}

}  // namespace foldgrad
