// Returns the message of a call that must throw.
#pragma once
#include <string>

namespace foldgrad::testing {

template <class Error, class Call>
std::string message(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace foldgrad::testing
