// JSON from files of any origin.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace foldgrad {

// Reads a file. Throws FileError if it cannot be read or is not JSON, if a number is out of a double's range, if an
// object has a key twice, or if it is nested more than 64 deep: copying and printing a value recurse to its depth.
nlohmann::json read_json(const std::string& path);

// Parses text of this file in the same way, and keeps the order of keys. Messages begin with `where`: "line 3 ".
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& path,
                                          const std::string& where = "");

// Returns a member of an object of this file, for T a std::int64_t, std::uint64_t, int, double, std::string or, for an
// object, nlohmann::json. Throws FileError if it is missing or has another type; it names the member and both types.
template <class T>
T member(const nlohmann::json& object, const std::string& key, const std::string& path);

// Returns a value for messages: text, numbers and the like as JSON, shortened; "an object", "an array".
std::string shown(const nlohmann::json& value);

}  // namespace foldgrad
