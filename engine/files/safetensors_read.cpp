#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "engine/files/safetensors_header.h"

namespace foldgrad {
namespace {

using namespace safetensors;

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, and values are copied unchanged");

// Returns a description of another file format that begins with these bytes, or an empty string if none is recognized.
std::string other_format(std::string_view first) {
  if (first.starts_with("PK\x03\x04"))
    return "a zip archive, such as a PyTorch .pt file, which examples/fairseq_import.py can convert";
  if (first.starts_with("\x80\x02") || first.starts_with("\x80\x03") || first.starts_with("\x80\x04"))
    return "a Python pickle, such as an old .pt file, which examples/fairseq_import.py can convert";
  if (first.starts_with("\x1f\x8b")) return "a gzip archive";
  if (first.starts_with('{') || first.starts_with('[')) return "JSON";
  const auto of_text = [](char c) { return (c >= ' ' && c <= '~') || c == '\t' || c == '\n' || c == '\r'; };
  return !first.empty() && std::ranges::all_of(first, of_text) ? "text" : "";
}

std::string read_header_text(const InputFile& file) {
  char first[kLengthBytes];
  const std::string_view begin(first, std::min<std::uint64_t>(kLengthBytes, file.size()));
  file.read(0, first, begin.size());
  std::uint64_t length = 0;
  std::memcpy(&length, first, begin.size());
  const std::uint64_t most = std::min(kMaxHeaderBytes, file.size() - begin.size());
  if (begin.size() == kLengthBytes && length <= most) {
    std::string text(length, '\0');
    file.read(kLengthBytes, text.data(), length);
    return text;
  }
  if (const std::string other = other_format(begin); !other.empty())
    throw FileError(file.path(), "is not a safetensors file; it looks like " + other);
  if (begin.size() < kLengthBytes)
    throw FileError(
        file.path(),
        fmt::format("is not a safetensors file: it has {} bytes, fewer than the 8 bytes of the header length",
                    begin.size()));
  throw FileError(file.path(), fmt::format("is not a complete safetensors file: byte 0: the header must "
                                           "have at most {} bytes, got {}",
                                           most, length));
}

// Throws FileError unless the entries, sorted by offset, cover the data exactly once.
void check_layout(const InputFile& file, const Header& header, std::uint64_t data_bytes) {
  std::vector<const std::pair<const std::string, Entry>*> order;
  for (const auto& entry : header.entries) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const auto* item) { return std::pair(item->second.begin, item->second.end); });
  std::uint64_t end = 0;
  for (const auto* item : order) {
    const auto& [name, entry] = *item;
    if (entry.begin != end)
      throw FileError(file.path(),
                      fmt::format("tensor {}: data_offsets must begin at {}, where the preceding data ends, got {}",
                                  quote(name), end, entry.begin));
    end = entry.end;
  }
  if (end != data_bytes)
    throw FileError(file.path(),
                    fmt::format("the tensors must fill the {} bytes after the header, got {}", data_bytes, end));
}

void restore_aliases(const std::string& path, SafetensorsFile& result) {
  NamedTensors aliases;
  auto& metadata = result.metadata;
  for (auto item = metadata.lower_bound(std::string(kAliasPrefix));
       item != metadata.end() && item->first.starts_with(kAliasPrefix);) {
    const std::string name = item->first.substr(kAliasPrefix.size());
    if (name.empty() || name == kMetadata || result.tensors.count(name))
      throw FileError(path, fmt::format("{} {}: the alias must not be the name of a tensor in the file", kMetadata,
                                        quote(item->first)));
    const auto other = result.tensors.find(item->second);
    if (other == result.tensors.end())
      throw FileError(path, fmt::format("{} {} must be the name of a tensor in the file, got {}", kMetadata,
                                        quote(item->first), quote(item->second)));
    aliases.emplace(name, other->second);
    item = metadata.erase(item);
  }
  result.tensors.merge(aliases);
}

}  // namespace

SafetensorsFile read_safetensors(const std::string& path) {
  const InputFile file(path);
  const std::string text = read_header_text(file);
  Header header = parse_header(path, text);
  const std::uint64_t data = kLengthBytes + text.size();
  check_layout(file, header, file.size() - data);

  SafetensorsFile result;
  result.metadata = std::move(header.metadata);
  for (const auto& [name, entry] : header.entries) {
    const Tensor tensor = Tensor::empty(entry.shape, entry.dtype);
    file.read(data + entry.begin, tensor.raw(), tensor.bytes());
    result.tensors.emplace(name, tensor);
  }
  restore_aliases(path, result);
  return result;
}

}  // namespace foldgrad
