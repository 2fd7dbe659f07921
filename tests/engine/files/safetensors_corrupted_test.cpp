// Tests the reader on damaged copies of a small file: truncated to every shorter length, or with one byte of the header
// set to another value. The reader must reject a damaged file or return its new contents.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {
namespace {

using Decoded = std::map<std::string, std::tuple<std::string, std::vector<std::uint64_t>, std::string>>;

// A second reader, which parses the header into a DOM instead of handling events. Returns the (dtype, shape, values) of
// each tensor by name, or nothing if the file must be rejected. The DOM keeps only one of two equal keys. In the file
// below, one changed byte can make only the names of two tensors with values equal. The DOM then loses one of these
// tensors, so the layout has a gap and the file is rejected.
std::optional<Decoded> decode(const std::string& bytes) {
  using Json = nlohmann::json;
  const std::map<std::string, unsigned> types = {{"F64", 8}, {"I64", 8},  {"F32", 4},
                                                 {"I32", 4}, {"BF16", 2}, {"U8", 1}};
  std::uint64_t length = 0;
  if (bytes.size() < 8) return {};
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) return {};
  const std::string text = bytes.substr(8, length), data = bytes.substr(8 + length);
  if (text.empty() || text[0] != '{' || text.find('\0') != text.npos) return {};
  const Json header = Json::parse(text, nullptr, false);
  if (header.is_discarded()) return {};

  Decoded tensors;
  std::set<std::pair<std::uint64_t, std::uint64_t>> regions;
  std::uint64_t covered = 0;
  const auto unsigned_array = [](const Json& j) {
    return j.is_array() && std::all_of(j.begin(), j.end(), [](const Json& e) { return e.is_number_unsigned(); });
  };
  for (const auto& [name, entry] : header.items()) {
    if (!entry.is_object() || name.empty()) return {};
    if (name == "__metadata__") {
      for (const Json& value : entry)
        if (!value.is_string()) return {};
      continue;
    }
    if (entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
      return {};
    const Json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
    if (!dtype.is_string() || !types.count(dtype) || !unsigned_array(shape) || !unsigned_array(offsets)) return {};
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) return {};
    long double expected = types.at(dtype);  // exact for all products that can equal the size of this small file
    for (const Json& size : shape) expected *= size.get<std::uint64_t>();
    const std::uint64_t begin = offsets[0], end = offsets[1];
    if (expected != end - begin) return {};
    covered += end - begin;
    regions.emplace(begin, end);
    tensors[name] = {dtype, shape, data.substr(begin, end - begin)};
  }
  std::uint64_t at = 0;
  for (const auto& [begin, end] : regions) {
    if (begin != at) return {};
    at = end;
  }
  if (at != data.size() || covered != data.size()) return {};
  return tensors;
}

std::optional<Decoded> read(const std::string& path) {
  const std::map<DType, std::string> types = {{DType::f64, "F64"},   {DType::i64, "I64"}, {DType::f32, "F32"},
                                              {DType::bf16, "BF16"}, {DType::i32, "I32"}, {DType::u8, "U8"}};
  try {
    Decoded tensors;
    for (const auto& [name, t] : read_safetensors(path).tensors)
      tensors[name] = {types.at(t.dtype()),
                       {t.shape().begin(), t.shape().end()},
                       std::string(static_cast<const char*>(t.raw()), t.bytes())};
    return tensors;
  } catch (const FileError&) {
    return {};
  }
}

std::string small_file(const TemporaryDirectory& directory) {
  const std::string path = directory / "small.safetensors";
  write_safetensors(path,
                    {{"a", Tensor::of<float>({2}, {1, -2})},
                     {"b", Tensor::of<float>({}, {3})},
                     {"id", Tensor::of<std::int64_t>({1}, {-1})},
                     {"none", Tensor::of<std::uint8_t>({0, 3}, {})}},
                    {{"n\xc3\xa9", "\n..."}});
  return path;
}

TEST(SafetensorsCorrupted, EveryTruncationIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = small_file(directory);
  ASSERT_TRUE(read(path));
  for (std::size_t size = read_bytes(path).size(); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(read(path)) << size;
  }
}

// Sets each byte of the header and of the header's length to every other value. An accepted file has, for example, a
// changed tensor name.
TEST(SafetensorsCorrupted, EveryChangeOfOneByteIsDecidedAsByASecondReader) {
  const TemporaryDirectory directory;
  const std::string path = small_file(directory);
  std::string bytes = read_bytes(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, char value) { file.seekp(std::streamoff(at)).put(bytes[at] = value).flush(); };
  const std::size_t header_end = bytes.size() - (8 + 8 + 4);
  ASSERT_EQ(bytes[header_end - 1], ' ');  // the loop also changes the padding
  int accepted = 0, refused = 0;
  for (std::size_t at = 0; at < header_end; ++at) {
    const char original = bytes[at];
    for (int value = 0; value < 256; ++value) {
      if (char(value) == original) continue;
      put(at, char(value));
      const std::optional<Decoded> want = decode(bytes);
      ASSERT_EQ(read(path), want) << "byte " << at << " from " << int(original) << " to " << value;
      ++(want ? accepted : refused);
    }
    put(at, original);
  }
  EXPECT_GT(accepted, 1000);  // in most accepted files, the changed byte is in a name or in the metadata
  EXPECT_GT(refused, 30000);
}

TEST(SafetensorsRefused, OtherFormatsAreRecognised) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model", converts = "which examples/fairseq_import.py can convert";
  const auto ending = [&](const std::string& begin) {
    write_bytes(path, begin + std::string(64, '\x7f'));
    const std::string text = message<FileError>([&] { read_safetensors(path); });
    return text.substr(std::min(text.find(';'), text.size()));
  };
  EXPECT_EQ(ending("PK\x03\x04"), "; it looks like a zip archive, such as a PyTorch .pt file, " + converts);
  for (const char* protocol : {"\x80\x02", "\x80\x03", "\x80\x04"})
    EXPECT_EQ(ending(protocol), "; it looks like a Python pickle, such as an old .pt file, " + converts);
  EXPECT_EQ(ending("\x1f\x8b"), "; it looks like a gzip archive");
  EXPECT_EQ(ending("{\"a\":"), "; it looks like JSON");
  EXPECT_EQ(ending("["), "; it looks like JSON");
  EXPECT_EQ(ending("# A page\n"), "; it looks like text");
  EXPECT_EQ(ending("PK\x03\x05"), "");
}

}  // namespace
}  // namespace foldgrad::testing
