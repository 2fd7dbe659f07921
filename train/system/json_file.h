// Reads JSON from files that may come from anywhere.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace foldgrad {

// Reads a file. Throws FileError if it cannot be read or is not JSON, if a number is out of a double's range, if an
// object has a key twice, or if values nest more than 64 levels deep, since copying and printing recurse.
nlohmann::json read_json(const std::string& path);

// Parses text from the file at `path` with the same checks as read_json(), but keeps the order of keys. Messages begin
// with `where`, for example with "line 3 ".
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& path,
                                          const std::string& where = "");

// Returns a member of an object from the file at `path`. T is std::int64_t, std::uint64_t, int, double, std::string or,
// for a member that is an object, nlohmann::json. Throws FileError if the member is missing or has the wrong type; the
// message names the member, the required type and the value.
template <class T>
T member(const nlohmann::json& object, const std::string& key, const std::string& path);

// Describes a value in messages: "an object" or "an array", otherwise JSON, with long strings shortened.
std::string shown(const nlohmann::json& value);

}  // namespace foldgrad
