// The header of a safetensors file. Private to the reader and the writer.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/dtype.h"
#include "engine/shape.h"

namespace foldgrad::safetensors {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the safetensors library
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kAliasPrefix = "alias.";

struct Entry {
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;  // byte range of the data; end - begin agrees with shape and dtype
};

struct Header {
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
};

// Parses a header. Checks each entry, but not for overlaps or gaps. Throws a FileError that names `path`.
Header parse_header(const std::string& path, const std::string& text);

const char* format_name(DType dtype);  // returns, for example, "F32"
// Throws std::invalid_argument if `text` is not UTF-8. The message refers to the text as `what`.
void require_utf8(const std::string& text, const char* what);
// Returns `text` as a JSON string for messages, truncated if it is long.
std::string quote(const std::string& text);

}  // namespace foldgrad::safetensors
