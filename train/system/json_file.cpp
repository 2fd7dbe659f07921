#include "train/system/json_file.h"

#include <fmt/format.h>

#include "engine/files/file.h"
#include "train/system/printable.h"

namespace foldgrad {

using nlohmann::json;

json read_json(const std::string& path) try {
  constexpr int kDeepest = 64;
  const std::string text = read_file(path);
  if (text.starts_with("\xef\xbb\xbf")) throw FileError(path, "must not begin with a byte order mark");
  return json::parse(text, [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw FileError(path, fmt::format("must not be nested more than {} deep", kDeepest));
    return true;
  });
} catch (const json::parse_error& e) {
  throw FileError(path, fmt::format("is not JSON at byte {}", e.byte));
} catch (const json::out_of_range&) {
  throw FileError(path, "must hold numbers of at most 1.8e308");
}

std::string shown(const json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.is_object() ? "an object" : value.is_array() ? "an array" : value.dump();
}

}  // namespace foldgrad
