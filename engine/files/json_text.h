// Parses JSON from untrusted files. Parsing takes O(n log n) time for any text.
#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace foldgrad {

struct JsonError {
  enum Kind { syntax, too_large_number, duplicate_key } kind;
  std::size_t byte;   // position of a syntax error, counted from 1
  std::string key;    // the duplicate key
  std::size_t depth;  // the number of enclosing objects and arrays
};

// The parser calls this before it stores a key or a value, with the number of enclosing objects and arrays, the kind of
// event, and the text of the key ("" for a value). May throw.
using JsonWatch = std::function<void(std::size_t depth, nlohmann::json::parse_event_t event, const std::string& key)>;

// Parses one JSON value; Json is nlohmann::json or nlohmann::ordered_json. Throws JsonError, and passes on exceptions
// of `watch`.
//
// We do not use the library's parser with a callback, because it searches an object again after each member that is
// itself an object, and an ordered object even after every member. Parsing a header with 100,000 tensors took minutes.
template <class Json>
Json parse_json(std::string_view text, const JsonWatch& watch);

}  // namespace foldgrad
