#include "train/system/json_file.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "engine/files/file.h"
#include "engine/files/json_text.h"
#include "train/system/printable.h"

namespace foldgrad {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

template <class Json>
Json parse(std::string_view text, const std::string& path, const std::string& where) try {
  constexpr std::size_t kDeepest = 64;
  if (text.starts_with("\xef\xbb\xbf")) throw FileError(path, where + "must not begin with a byte order mark");
  // The parser treats a zero byte as the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    throw FileError(path, fmt::format("{}is not JSON at byte {}", where, zero + 1));
  return parse_json<Json>(text, [&](std::size_t depth, auto, const std::string&) {
    if (depth > kDeepest) throw FileError(path, fmt::format("{}must not be nested more than {} deep", where, kDeepest));
  });
} catch (const JsonError& e) {
  if (e.kind == JsonError::duplicate_key)
    throw FileError(path,
                    fmt::format("{}must not repeat a key within an object, got {} twice", where, in_quotes(e.key)));
  if (e.kind == JsonError::too_large_number)
    throw FileError(path, where + "must not contain numbers whose magnitude exceeds 1.8e308");
  throw FileError(path, fmt::format("{}is not JSON at byte {}", where, e.byte));
}

}  // namespace

json read_json(const std::string& path) { return parse<json>(read_file(path), path, ""); }

ordered_json parse_ordered_json(std::string_view text, const std::string& path, const std::string& where) {
  return parse<ordered_json>(text, path, where);
}

template <class T>
T member(const json& object, const std::string& key, const std::string& path) {
  constexpr bool kIsInteger = std::is_integral_v<T>;
  const auto refuse = [&](const std::string& got) {
    throw FileError(path, fmt::format("{} must be {}, got {}", in_quotes(key),
                                      kIsInteger                       ? "an integer"
                                      : std::is_same_v<T, double>      ? "a number"
                                      : std::is_same_v<T, std::string> ? "text"
                                                                       : "an object",
                                      got));
  };
  const auto found = object.find(key);  // end() if the key is missing or `object` is not an object
  if (found == object.end()) refuse("nothing");
  bool fits = false;
  if constexpr (kIsInteger)
    fits = found->is_number_unsigned()
               ? std::in_range<T>(found->template get<std::uint64_t>())
               : found->is_number_integer() && std::in_range<T>(found->template get<std::int64_t>());
  else if constexpr (std::is_same_v<T, double>)
    fits = found->is_number();
  else
    fits = std::is_same_v<T, std::string> ? found->is_string() : found->is_object();
  if (!fits) refuse(shown(*found));
  return found->template get<T>();
}

template int member(const json&, const std::string&, const std::string&);
template std::int64_t member(const json&, const std::string&, const std::string&);
template std::uint64_t member(const json&, const std::string&, const std::string&);
template double member(const json&, const std::string&, const std::string&);
template std::string member(const json&, const std::string&, const std::string&);
template json member(const json&, const std::string&, const std::string&);

std::string shown(const json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.is_object() ? "an object" : value.is_array() ? "an array" : value.dump();
}

}  // namespace foldgrad
