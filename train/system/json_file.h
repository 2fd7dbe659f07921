// JSON from files that may come from anywhere.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace foldgrad {

// Reads a file. Throws FileError: when it cannot be read or is not JSON, when a number in it is out of a double's
// range, when an object has a key twice, and when it is nested more than 64 deep, since copying and printing a value go
// as deep into the stack.
nlohmann::json read_json(const std::string& path);

// Parses text of this file in the same way, and keeps the order of keys. `where` begins messages: "line 3 ".
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& path,
                                          const std::string& where = "");

// Returns a member of an object of this file, for T a std::int64_t, std::uint64_t, int, double, std::string or, for an
// object, nlohmann::json. Throws FileError where there is none, or one of another type: it names the member, what it
// must be and what it is.
template <class T>
T member(const nlohmann::json& object, const std::string& key, const std::string& path);

// Returns a value as messages may repeat it: text, numbers and the like as JSON, cut; "an object", "an array".
std::string shown(const nlohmann::json& value);

}  // namespace foldgrad
