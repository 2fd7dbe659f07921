// JSON from files that may come from anywhere: parsed in time that grows with n log n, whatever the text holds.
#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace foldgrad {

struct JsonError {
  enum Kind { syntax, too_large_number, duplicate_key } kind;
  std::size_t byte;  // of a syntax error, counted from 1
  std::string key;   // the one that comes twice, and the number of objects and arrays around it
  std::size_t depth;
};

// Sees everything before it is kept: the number of objects and arrays around it, what it is, and a key's text ("" for
// all else). May throw.
using JsonWatch = std::function<void(std::size_t depth, nlohmann::json::parse_event_t event, const std::string& key)>;

// Parses one JSON value; Json is nlohmann::json or nlohmann::ordered_json. Throws JsonError, and what `watch` throws.
//
// The library's parser with a callback looks through an object again after each of its members that is an object, and
// its ordered objects after each member: a header of 100,000 tensors took minutes.
template <class Json>
Json parse_json(std::string_view text, const JsonWatch& watch);

}  // namespace foldgrad
