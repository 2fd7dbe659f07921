#include "engine/files/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "engine/files/file.h"
#include "tests/engine/files/temporary_directory.h"
#include "tests/harness/compare.h"
#include "tests/harness/properties.h"

namespace foldgrad {
namespace {

using namespace testing;
using Metadata = std::map<std::string, std::string>;

// The file that serialize() of the Python package safetensors 0.5.3 makes of the following tensors, whose bytes were
// packed with Python's struct:
//   weight F32 [2, 3] 1 -2 0.5 3.25 -0 0.001;  half BF16 [3] 1 -2 inf;  double F64 [] 0.1;  ids I64 [2] -1 2^40;
//   lengths I32 [1, 2] 7 -8;  mask U8 [3] 0 1 255;  none F32 [0, 4];  metadata note = "café"
const char kPythonHeader[] =
    R"({"__metadata__":{"note":"café"},"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
    R"("double":{"dtype":"F64","shape":[],"data_offsets":[16,24]},)"
    R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[24,24]},)"
    R"("weight":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]},)"
    R"("lengths":{"dtype":"I32","shape":[1,2],"data_offsets":[48,56]},)"
    R"("half":{"dtype":"BF16","shape":[3],"data_offsets":[56,62]},)"
    R"("mask":{"dtype":"U8","shape":[3],"data_offsets":[62,65]}}       )";
const char kPythonData[] =
    "ffffffffffffffff0000000000010000"                  // ids
    "9a9999999999b93f"                                  // double
    "0000803f000000c00000003f00005040000000806f12833a"  // weight
    "07000000f8ffffff"                                  // lengths
    "803f00c0807f"                                      // half
    "0001ff";                                           // mask

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) bytes += char(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

NamedTensors python_tensors() {
  return {{"weight", Tensor::of<float>({2, 3}, {1, -2, 0.5, 3.25, -0.0f, 0.001f})},
          {"half", Tensor::of<bf16>({3}, {1.0f, -2.0f, INFINITY})},
          {"double", Tensor::of<double>({}, {0.1})},
          {"ids", Tensor::of<std::int64_t>({2}, {-1, std::int64_t(1) << 40})},
          {"lengths", Tensor::of<std::int32_t>({1, 2}, {7, -8})},
          {"mask", Tensor::of<std::uint8_t>({3}, {0, 1, 255})},
          {"none", Tensor::of<float>({0, 4}, {})}};
}

void expect_identical(const NamedTensors& got, const NamedTensors& want) {
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.count(name)) << name;
    EXPECT_TRUE(identical(got.at(name), tensor)) << name;
  }
}

class SafetensorsTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory;
  const std::string path = directory / "file.safetensors";
};

TEST_F(SafetensorsTest, ReadsAFileOfThePythonLibrary) {
  const std::string header = kPythonHeader;
  ASSERT_EQ(header.size(), 456u);
  write_bytes(path, from_hex("c801000000000000") + header + from_hex(kPythonData));
  const SafetensorsFile file = read_safetensors(path);
  expect_identical(file.tensors, python_tensors());
  EXPECT_EQ(file.metadata, (Metadata{{"note", "café"}}));
}

TEST_F(SafetensorsTest, WritesLargerElementsFirstThenByName) {
  write_safetensors(path, python_tensors(), {{"a \"b\"", "\\\n\x01"}});
  const std::string header = R"({"__metadata__":{"a \"b\"":"\\\n\u0001","format":"pt"},)"
                             R"("double":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                             R"("ids":{"dtype":"I64","shape":[2],"data_offsets":[8,24]},)"
                             R"("lengths":{"dtype":"I32","shape":[1,2],"data_offsets":[24,32]},)"
                             R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[32,32]},)"
                             R"("weight":{"dtype":"F32","shape":[2,3],"data_offsets":[32,56]},)"
                             R"("half":{"dtype":"BF16","shape":[3],"data_offsets":[56,62]},)"
                             R"("mask":{"dtype":"U8","shape":[3],"data_offsets":[62,65]}})";
  const std::string padding(7 - (header.size() + 7) % 8, ' ');
  std::string length(8, '\0');
  length[0] = char((header + padding).size() & 255), length[1] = char((header + padding).size() >> 8);
  EXPECT_EQ(read_bytes(path), length + header + padding +
                                  from_hex("9a9999999999b93f"
                                           "ffffffffffffffff0000000000010000"
                                           "07000000f8ffffff"
                                           "0000803f000000c00000003f00005040000000806f12833a"
                                           "803f00c0807f"
                                           "0001ff"));
}

TEST_F(SafetensorsTest, NoTensorsAtAll) {
  write_safetensors(path, {});
  EXPECT_EQ(read_bytes(path), from_hex("2000000000000000") + R"({"__metadata__":{"format":"pt"}})");
  const SafetensorsFile file = read_safetensors(path);
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}}));
}

TEST_F(SafetensorsTest, SharedTensorsAreWrittenOnceAndSharedAgain) {
  const Tensor embedding = Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const NamedTensors tensors = {
      {"decoder", embedding},          {"encoder", embedding},           {"output", embedding},
      {"copy", embedding.clone()},     {"flat", embedding.reshape({8})}, {"rows", embedding.slice(0, 2)},
      {"empty", embedding.slice(4, 4)}};
  write_safetensors(path, tensors, {{"note", "x"}});
  const std::string bytes = read_bytes(path);
  EXPECT_NE(bytes.find(R"("alias.encoder":"decoder","alias.output":"decoder","format":"pt","note":"x")"), bytes.npos);
  EXPECT_EQ(bytes.size() - 8 - std::uint8_t(bytes[0]) - 256 * std::uint8_t(bytes[1]), 32u + 32 + 32 + 16);

  const SafetensorsFile file = read_safetensors(path);
  expect_identical(file.tensors, tensors);
  EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}, {"note", "x"}}));
  const Tensor& decoder = file.tensors.at("decoder");
  for (const auto& [name, tensor] : file.tensors)
    EXPECT_EQ(tensor.shares_storage_with(decoder), name == "decoder" || name == "encoder" || name == "output") << name;
}

// An empty tensor has no storage to share. If it were written as an alias, other readers would lose it.
TEST_F(SafetensorsTest, EmptyTensorsAreNoAliases) {
  write_safetensors(path, {{"a", Tensor::zeros({0}, DType::f32)}, {"b", Tensor::zeros({0}, DType::f32)}});
  EXPECT_NE(read_bytes(path).find(R"("b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})"), std::string::npos);
  EXPECT_EQ(read_safetensors(path).tensors.size(), 2u);
}

TEST_F(SafetensorsTest, WritesFromTheDevice) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Tensor x = Tensor::of<float>({3}, {1, 2, 3}, Device::cuda);
  write_safetensors(path, {{"x", x}, {"y", x}});
  const SafetensorsFile file = read_safetensors(path);
  EXPECT_TRUE(identical(file.tensors.at("x"), x.to(Device::cpu)));
  EXPECT_TRUE(file.tensors.at("y").shares_storage_with(file.tensors.at("x")));
}

TEST_F(SafetensorsTest, RefusedArgumentsLeaveTheOldFile) {
  write_bytes(path, "old");
  const Tensor x = Tensor::zeros({1}, DType::f32);
  const std::tuple<NamedTensors, Metadata, std::string> cases[] = {
      {{{"", x}}, {}, "safetensors: a tensor must not be named \"\""},
      {{{"__metadata__", x}}, {}, "safetensors: a tensor must not be named \"__metadata__\""},
      {{{"w", {}}}, {}, "safetensors: tensor \"w\" must be defined"},
      {{{"w\xff", x}}, {}, "safetensors: a name must be UTF-8, got \"w\xef\xbf\xbd\""},
      {{{"w\xed\xa0\x80", x}}, {}, "safetensors: a name must be UTF-8, got \"w\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
      {{{"v", x}, {"w\xff", x}}, {}, "safetensors: metadata must be UTF-8, got \"alias.w\xef\xbf\xbd\""},
      {{}, {{"k\xff", ""}}, "safetensors: metadata must be UTF-8, got \"k\xef\xbf\xbd\""},
      {{}, {{"k", "\xc3"}}, "safetensors: metadata must be UTF-8, got \"\xef\xbf\xbd\""},
      {{}, {{"format", "np"}}, "safetensors: the metadata format must be pt, got \"np\""},
      {{}, {{"alias.w", "v"}}, "safetensors: a metadata key must not begin with \"alias.\", got \"alias.w\""},
      {{},
       {{"k", std::string(100'000'000, ' ')}},
       "safetensors: the header must have at most 100000000 bytes, got 100000040"},
  };
  for (const auto& [tensors, metadata, refusal] : cases)
    EXPECT_EQ(message<std::invalid_argument>([&, &t = tensors, &m = metadata] { write_safetensors(path, t, m); }),
              refusal);
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(directory.entries(), 1);
}

// If the time grew with the square of the number of tensors, four times as many tensors would take 16 times as long.
TEST_F(SafetensorsTest, TimeGrowsWithTheNumberOfTensors) {
  const auto seconds = [&](int count) {
    NamedTensors tensors;
    for (int i = 0; i < count; ++i) tensors.emplace(std::to_string(i), Tensor::empty({0}, DType::u8));
    const std::clock_t begin = std::clock();
    write_safetensors(path, tensors);
    EXPECT_EQ(read_safetensors(path).tensors.size(), std::size_t(count));
    return double(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double few = std::min(seconds(10'000), seconds(10'000));
  EXPECT_LT(std::min(seconds(40'000), seconds(40'000)) / few, 10);
}

TEST_F(SafetensorsTest, FilesThatCannotBeOpened) {
  const std::string missing = directory / "missing", pipe = directory / "pipe", nowhere = directory / "a/b";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { read_safetensors(missing); }), missing + ": cannot be opened: No such file or directory");
  EXPECT_EQ(message_of([&] { read_safetensors(pipe); }), pipe + ": is not a regular file");
  EXPECT_EQ(message_of([&] { read_safetensors(directory.path()); }), directory.path() + ": is not a regular file");
  EXPECT_EQ(message_of([&] { read_safetensors(""); }), "\"\": cannot be opened: No such file or directory");
  const std::string of_kernel = "/proc/self/status";  // has content, but no size
  EXPECT_EQ(message_of([&] { read_safetensors(of_kernel); }), of_kernel + ": is not a regular file");
  const std::string memory = "/proc/self/mem";  // has no size, and its first byte cannot be read
  EXPECT_EQ(message_of([&] { read_safetensors(memory); }), memory + ": is not a regular file");
  EXPECT_THROW(write_safetensors(nowhere, {}), FileError);
}

std::string random_name() {
  static const std::vector<std::string> pieces = {"a", "b", ".",  "\"",   "\\",   "/", "{",  "}", ":",
                                                  ",", " ", "\n", "\x01", "\x7f", "é", "字", "😀", std::string(1, '\0')};
  std::string name;
  for (const std::string& piece :
       *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))))
    name += piece;
  return name;
}

// Returns a tensor of arbitrary bits, including signalling NaNs, since files keep bits, not values.
Tensor random_tensor() {
  const DType dtype = *rc::gen::element(DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8);
  const int rank = *rc::gen::inRange(0, 4);
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rank, rc::gen::inRange<std::int64_t>(0, 4));
  const Tensor tensor = Tensor::empty(Shape(sizes), dtype);
  const auto bits = *rc::gen::container<std::vector<char>>(tensor.bytes(), rc::gen::arbitrary<char>());
  std::copy(bits.begin(), bits.end(), static_cast<char*>(tensor.raw()));
  return tensor;
}

RC_GTEST_PROP(Safetensors, RoundTrip, ()) {
  NamedTensors tensors;
  std::vector<Tensor> made;
  for (int count = *rc::gen::inRange(0, 8); count > 0; --count) {
    const bool reused = !made.empty() && *rc::gen::inRange(0, 4) == 0;
    made.push_back(reused ? *rc::gen::elementOf(made) : random_tensor());
    tensors.emplace(random_name(), made.back());
  }
  Metadata metadata;
  for (int count = *rc::gen::inRange(0, 3); count > 0; --count) metadata[random_name()] = random_name();

  const TemporaryDirectory directory;
  const std::string path = directory / "random.safetensors", again = directory / "again.safetensors";
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file = read_safetensors(path);
  metadata["format"] = "pt";
  RC_ASSERT(file.metadata == metadata);
  RC_ASSERT(file.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    RC_ASSERT(file.tensors.count(name));
    RC_ASSERT(bool(identical(file.tensors.at(name), tensor)));
    for (const auto& [other, shared] : tensors)
      RC_ASSERT(file.tensors.at(name).shares_storage_with(file.tensors.at(other)) ==
                tensor.shares_storage_with(shared));
  }
  write_safetensors(again, file.tensors, file.metadata);
  RC_ASSERT(read_bytes(again) == read_bytes(path));
}

}  // namespace
}  // namespace foldgrad
