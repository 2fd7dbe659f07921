// JSON from files that may come from anywhere.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace foldgrad {

// Reads a file. Throws FileError: when it cannot be read or is not JSON, when a number in it is out of a double's
// range, and when it is nested more than 64 deep, since copying and printing a value go as deep into the stack.
nlohmann::json read_json(const std::string& path);

// Returns a value as messages may repeat it: text, numbers and the like as JSON, cut; "an object", "an array".
std::string shown(const nlohmann::json& value);

}  // namespace foldgrad
