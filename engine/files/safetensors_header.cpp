#include "engine/files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/files/file.h"
#include "engine/files/json_text.h"

namespace foldgrad::safetensors {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxAxes = 64;
constexpr const char* kIntegers = "integers from 0 to 2^63 - 1";

constexpr struct StoredType {
  const char* name;
  DType dtype;
} kTypes[] = {{"F64", DType::f64}, {"F32", DType::f32}, {"BF16", DType::bf16},
              {"I64", DType::i64}, {"I32", DType::i32}, {"U8", DType::u8}};

std::string subject_of(const std::string& key) { return key == kMetadata ? key : "tensor " + quote(key); }

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}
  Header read(const std::string& text);

 private:
  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw FileError(path_, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  [[noreturn]] void refuse(const std::string& subject, const char* expected, const Json& found) const {
    fail("{} must be {}, got {}", subject, expected,
         found.is_object()   ? "an object"
         : found.is_array()  ? "an array"
         : found.is_string() ? quote(found.get_ref<const std::string&>())
                             : found.dump());
  }
  void watch(std::size_t depth, Json::parse_event_t event, const std::string& key);
  std::vector<std::int64_t> integers(const std::string& name, const char* key, const Json& array) const;
  Entry entry(const std::string& name, const Json& fields) const;

  const std::string& path_;
  std::string top_, field_;   // the last keys that were read at the first and second level
  std::size_t elements_ = 0;  // number of elements of the last array that were read
};

// Checks each key and value before the parser stores it: a malicious header could be nested as deep as it is long.
void Reader::watch(std::size_t depth, Json::parse_event_t event, const std::string& key) {
  using Event = Json::parse_event_t;
  if (event == Event::key) {
    if (depth > 2) fail("{} must not contain nested objects", subject_of(top_));
    (depth == 1 ? top_ : field_) = key;
  }
  const bool array = event == Event::array_start;
  const bool begins = array || event == Event::object_start || event == Event::value;
  if (depth > 3 && begins && top_ == kMetadata)
    refuse(fmt::format("{} {}", kMetadata, quote(field_)), "a string", Json::array());
  if (depth > 3 && begins) refuse(subject_of(top_) + ": " + field_, kIntegers, Json::array());
  if (depth == 1 && array) refuse(subject_of(top_), "an object", Json::array());
  if (depth == 2 && array) elements_ = 0;
  if (depth == 3 && begins && ++elements_ > kMaxAxes)
    fail("{}: shape must have at most {} axes, got more", subject_of(top_), kMaxAxes);
}

std::vector<std::int64_t> Reader::integers(const std::string& name, const char* key, const Json& array) const {
  if (!array.is_array()) refuse(subject_of(name) + ": " + key, "an array", array);
  for (const Json& one : array)
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > std::uint64_t(INT64_MAX))
      refuse(subject_of(name) + ": " + key, kIntegers, one);
  return array.get<std::vector<std::int64_t>>();
}

Entry Reader::entry(const std::string& name, const Json& fields) const {
  if (!fields.is_object()) refuse(subject_of(name), "an object", fields);
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!fields.contains(key)) fail("{} must have dtype, shape and data_offsets, got no {}", subject_of(name), key);
  for (const auto& [key, value] : fields.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      fail("{} must have only dtype, shape and data_offsets, got {}", subject_of(name), quote(key));
  const Json& type = fields["dtype"];
  if (!type.is_string()) refuse(subject_of(name) + ": dtype", "a string", type);
  const auto* known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return type == t.name; });
  if (known == std::end(kTypes)) refuse(subject_of(name) + ": dtype", "F64, F32, BF16, I64, I32 or U8", type);
  const std::vector<std::int64_t> sizes = integers(name, "shape", fields["shape"]),
                                  offsets = integers(name, "data_offsets", fields["data_offsets"]);
  if (offsets.size() != 2) fail("{}: data_offsets must have two entries, got {}", subject_of(name), offsets.size());

  // Skips sizes of zero: strides are products of the other sizes, and these products must not overflow.
  std::int64_t bytes = std::int64_t(size_of(known->dtype));
  bool empty = false, counted = true;
  for (const std::int64_t size : sizes)
    if (size == 0)
      empty = true;
    else
      counted = counted && !__builtin_mul_overflow(bytes, size, &bytes);
  const auto stored = [&] { return fmt::format("{} [{}]", known->name, fmt::join(sizes, ", ")); };
  if (!counted) fail("{}: {} must have fewer than 2^63 bytes", subject_of(name), stored());
  if (empty) bytes = 0;
  if (offsets[1] - offsets[0] != bytes)
    fail("{}: data_offsets must span the {} bytes of {}, got [{}]", subject_of(name), bytes, stored(),
         fmt::join(offsets, ", "));
  return {known->dtype, Shape(sizes), std::uint64_t(offsets[0]), std::uint64_t(offsets[1])};
}

Header Reader::read(const std::string& text) {
  const auto found = [&](std::size_t at) {
    return at < text.size() ? fmt::format("0x{:02x}", std::uint8_t(text[at])) : "its end";
  };
  // The parser would skip a byte order mark and white space, and stop at a zero byte, so we check for these.
  if (!text.starts_with('{')) fail("byte {}: the header must begin with {{, got {}", kLengthBytes, found(0));
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    fail("byte {}: the header must not contain zero bytes", kLengthBytes + zero);
  Json json;
  try {
    json = parse_json<Json>(
        text, [this](std::size_t depth, auto event, const std::string& key) { watch(depth, event, key); });
  } catch (const JsonError& e) {
    if (e.kind == JsonError::duplicate_key)
      fail("{} must not repeat keys, got {} twice", e.depth == 1 ? "the header" : subject_of(top_), quote(e.key));
    if (e.kind == JsonError::too_large_number) fail("the header must not have a number that is too large for f64");
    const std::size_t at = e.byte == 0 ? 0 : e.byte - 1;  // `byte` counts the bytes that the parser has read
    fail("byte {}: the header must be one JSON object in UTF-8, got {}", kLengthBytes + at, found(at));
  }
  Header header;
  for (const auto& [key, value] : json.items()) {
    if (key.empty()) fail("the name of a tensor must not be empty");
    if (key != kMetadata) {
      header.entries.emplace_hint(header.entries.end(), key, entry(key, value));
      continue;
    }
    if (!value.is_object()) refuse(subject_of(key), "an object", value);
    for (const auto& [name, datum] : value.items()) {
      if (!datum.is_string()) refuse(fmt::format("{} {}", kMetadata, quote(name)), "a string", datum);
      header.metadata[name] = datum.get<std::string>();
    }
  }
  return header;
}

}  // namespace

Header parse_header(const std::string& path, const std::string& text) { return Reader(path).read(text); }

const char* format_name(DType dtype) { return std::ranges::find(kTypes, dtype, &StoredType::dtype)->name; }

void require_utf8(const std::string& text, const char* what) try {
  (void)Json(text).dump();
} catch (const Json::type_error&) {
  throw std::invalid_argument(fmt::format("safetensors: {} must be UTF-8, got {}", what, quote(text)));
}

std::string quote(const std::string& text) {
  constexpr std::size_t kLongest = 80;
  const std::string shown = Json(text.substr(0, kLongest)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > kLongest ? shown + "..." : shown;
}

}  // namespace foldgrad::safetensors
