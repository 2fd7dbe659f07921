// Tests that the reader rejects malformed files, each with one fault, and compares the full messages.
#include <fmt/format.h>

#include <cstring>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "tests/engine/files/temporary_directory.h"

namespace foldgrad {
namespace {

using namespace testing;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::string repeated(const std::string& text, int count) {
  return fmt::format("{}", fmt::join(std::vector(count, text), ""));
}

// Reads a file. Returns the error message without the path, "accepted" if there is no error, or a description of an
// error of the wrong type.
std::string refusal_of(const std::string& path) {
  try {
    read_safetensors(path);
    return "accepted";
  } catch (const FileError& e) {
    const std::string message = e.what();
    return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "without the path: " + message;
  } catch (const std::exception& e) {
    return std::string("not a FileError: ") + e.what();
  }
}

struct Case {
  std::string header;
  int data_bytes;
  std::string message;
};

void check_cases(const std::vector<Case>& cases) {
  const TemporaryDirectory directory;
  const std::string path = directory / "bad.safetensors";
  for (const Case& c : cases) {
    write_bytes(path, with_length(c.header.size(), c.header + std::string(c.data_bytes, 'x')));
    EXPECT_EQ(refusal_of(path), c.message) << c.header.substr(0, 200);
  }
}

// Each of these functions returns a header that contains `text` as one value of tensor `a`, or as the metadata.
std::string shape(const std::string& text) {
  return R"({"a":{"dtype":"F32","data_offsets":[0,4],"shape":)" + text + "}}";
}
std::string offsets(const std::string& text) {
  return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + text + "}}";
}
std::string dtype(const std::string& text) {
  return R"({"a":{"data_offsets":[0,4],"shape":[1],"dtype":)" + text + "}}";
}
std::string metadata(const std::string& text) { return R"({"__metadata__":)" + text + "}"; }
// Returns a header of u8 tensors `a`, `b`, ... with these offsets.
std::string bytes_at(const std::vector<std::pair<int, int>>& offsets) {
  std::string entries;
  char name = 'a';
  for (const auto& [begin, end] : offsets) {
    entries += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", entries.empty() ? "" : ",",
                           name, end - begin, begin, end);
    ++name;
  }
  return "{" + entries + "}";
}

const std::string kNotWhole = "is not a complete safetensors file: byte 0: the header must have ";

TEST(SafetensorsMalformed, LengthOfTheHeader) {
  const TemporaryDirectory directory;
  const std::string path = directory / "bad.safetensors";
  const std::pair<std::string, std::string> cases[] = {
      {"", "is not a safetensors file: it has 0 bytes, fewer than the 8 bytes of the header length"},
      {"1234567", "is not a safetensors file; it looks like text"},
      {with_length(3, "{}"), kNotWhole + "at most 2 bytes, got 3"},
      {with_length(~std::uint64_t(0), "{}"), kNotWhole + "at most 2 bytes, got 18446744073709551615"},
      {with_length(0, ""), "byte 8: the header must begin with {, got its end"},
      {with_length(1, "{}"), "byte 9: the header must be one JSON object in UTF-8, got its end"},
  };
  for (const auto& [bytes, message] : cases) {
    write_bytes(path, bytes);
    EXPECT_EQ(refusal_of(path), message);
  }
  // This sparse file is large enough for a header that is longer than the format allows.
  write_bytes(path, with_length(100'000'001, "{"));
  std::filesystem::resize_file(path, 100'000'100);
  EXPECT_EQ(refusal_of(path), kNotWhole + "at most 100000000 bytes, got 100000001");
}

TEST(SafetensorsMalformed, NotOneJsonObject) {
  const auto at = [](int byte, const std::string& found) {
    return "byte " + std::to_string(8 + byte) + ": the header must be one JSON object in UTF-8, got " + found;
  };
  check_cases({
      {" {}", 0, "byte 8: the header must begin with {, got 0x20"},
      {"\xef\xbb\xbf{}", 0, "byte 8: the header must begin with {, got 0xef"},
      {"[]", 0, "byte 8: the header must begin with {, got 0x5b"},
      {"null", 0, "byte 8: the header must begin with {, got 0x6e"},
      {std::string("{}\0 ", 4), 0, "byte 10: the header must not contain zero bytes"},
      {std::string("{\"a\0\":1}", 8), 0, "byte 11: the header must not contain zero bytes"},
      {"{}x", 0, at(2, "0x78")},
      {"{}{}", 0, at(2, "0x7b")},
      {"{", 0, at(1, "its end")},
      {"{/**/}", 0, at(1, "0x2f")},
      {metadata("{\"a\":\"b\",}"), 0, at(25, "0x7d")},
      {metadata("{\"a\":\"\xff\"}"), 0, at(22, "0xff")},
      {shape("[1e999]"), 4, "the header must not have a number that is too large for f64"},
  });
}

TEST(SafetensorsMalformed, NamesAndMetadata) {
  check_cases({
      {R"({"a":7})", 0, R"(tensor "a" must be an object, got 7)"},
      {R"({"a":"F32"})", 0, R"(tensor "a" must be an object, got "F32")"},
      {R"({"a":[]})", 0, R"(tensor "a" must be an object, got an array)"},
      {R"({"a\n\"":1})", 0, R"(tensor "a\n\"" must be an object, got 1)"},
      {"{\"" + std::string(79, 'n') + "\xc3\xa9\":1}", 0,
       "tensor \"" + std::string(79, 'n') + "\xef\xbf\xbd\"... must be an object, got 1"},
      {R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "the name of a tensor must not be empty"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{}})", 0,
       R"(the header must not repeat keys, got "a" twice)"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, R"(the header must not repeat keys, got "__metadata__" twice)"},
      {metadata("\"a\""), 0, R"(__metadata__ must be an object, got "a")"},
      {metadata(R"({"a":1})"), 0, R"(__metadata__ "a" must be a string, got 1)"},
      {metadata(R"({"a":{}})"), 0, R"(__metadata__ "a" must be a string, got an object)"},
      {metadata(R"({"a":["b"]})"), 0, R"(__metadata__ "a" must be a string, got an array)"},
      {metadata(R"({"a":"b","a":"b"})"), 0, R"(__metadata__ must not repeat keys, got "a" twice)"},
  });
}

TEST(SafetensorsMalformed, Aliases) {
  const auto alias = [](const std::string& pairs) {
    return R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{)" + pairs + "}}";
  };
  const std::string not_stored = ": the alias must not be the name of a tensor in the file";
  const std::string no_target = " must be the name of a tensor in the file, got ";
  check_cases({
      {alias(R"("alias.a":"a")"), 1, R"(__metadata__ "alias.a")" + not_stored},
      {alias(R"("alias.":"a")"), 1, R"(__metadata__ "alias.")" + not_stored},
      {alias(R"("alias.__metadata__":"a")"), 1, R"(__metadata__ "alias.__metadata__")" + not_stored},
      {alias(R"("alias.b":"c")"), 1, R"(__metadata__ "alias.b")" + no_target + R"("c")"},
      {alias(R"("alias.b":"b")"), 1, R"(__metadata__ "alias.b")" + no_target + R"("b")"},
      {alias(R"("alias.b":"a","alias.c":"b")"), 1, R"(__metadata__ "alias.c")" + no_target + R"("b")"},
      {alias(R"("alias.b":"")"), 1, R"(__metadata__ "alias.b")" + no_target + R"("")"},
  });
}

TEST(SafetensorsMalformed, KeysOfAnEntry) {
  const std::string whole = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const auto entry = [](const std::string& text) { return R"({"a":{)" + text + "}}"; };
  const std::string only = R"(tensor "a" must have only dtype, shape and data_offsets, got )";
  const std::string all = R"(tensor "a" must have dtype, shape and data_offsets, got no )";
  const std::string once = R"(tensor "a" must not repeat keys, got )";
  const std::string types = R"(tensor "a": dtype must be F64, F32, BF16, I64, I32 or U8, got )";
  check_cases({
      {entry(whole + R"(,"strides":[1])"), 4, only + R"("strides")"},
      {entry(whole + R"(,"":1)"), 4, only + R"("")"},
      {entry(whole + R"(,"dtype":"F32")"), 4, once + R"("dtype" twice)"},
      {entry(""), 4, all + "dtype"},
      {entry(R"("shape":[1],"data_offsets":[0,4])"), 4, all + "dtype"},
      {entry(R"("dtype":"F32","data_offsets":[0,4])"), 4, all + "shape"},
      {entry(R"("dtype":"F32","shape":[1])"), 4, all + "data_offsets"},
      {dtype("1"), 4, R"(tensor "a": dtype must be a string, got 1)"},
      {dtype("{}"), 4, R"(tensor "a": dtype must be a string, got an object)"},
      {dtype(R"("BOOL")"), 4, types + R"("BOOL")"},
      {dtype(R"("F16")"), 4, types + R"("F16")"},
      {dtype(R"("F32\u0000")"), 4, types + R"("F32\u0000")"},
      {dtype(R"("")"), 4, types + R"("")"},
  });
}

TEST(SafetensorsMalformed, ShapesAndOffsets) {
  const std::string sizes = R"(tensor "a": shape must be integers from 0 to 2^63 - 1, got )";
  const std::string places = R"(tensor "a": data_offsets must be integers from 0 to 2^63 - 1, got )";
  check_cases({
      {shape("1"), 4, R"(tensor "a": shape must be an array, got 1)"},
      {shape("null"), 4, R"(tensor "a": shape must be an array, got null)"},
      {shape("[-1]"), 4, sizes + "-1"},
      {shape("[-0]"), 4, sizes + "0"},
      {shape("[-9223372036854775808]"), 4, sizes + "-9223372036854775808"},
      {shape("[1.0]"), 4, sizes + "1.0"},
      {shape("[1e0]"), 4, sizes + "1.0"},
      {shape("[9223372036854775808]"), 4, sizes + "9223372036854775808"},
      {shape("[18446744073709551616]"), 4, sizes + "1.8446744073709552e+19"},
      {shape("[1" + std::string(100, '0') + "]"), 4, sizes + "1e+100"},
      {shape("[\"1\"]"), 4, sizes + "\"1\""},
      {shape("[null]"), 4, sizes + "null"},
      {shape("[false]"), 4, sizes + "false"},
      {shape("[[1]]"), 4, sizes + "an array"},
      {shape("[{}]"), 4, sizes + "an object"},
      {shape("[" + repeated("1,", 64) + "1]"), 4, R"(tensor "a": shape must have at most 64 axes, got more)"},
      {offsets("4"), 4, R"(tensor "a": data_offsets must be an array, got 4)"},
      {offsets("[]"), 4, R"(tensor "a": data_offsets must have two entries, got 0)"},
      {offsets("[0]"), 4, R"(tensor "a": data_offsets must have two entries, got 1)"},
      {offsets("[0,4,4]"), 4, R"(tensor "a": data_offsets must have two entries, got 3)"},
      {offsets("[-4,0]"), 4, places + "-4"},
      {offsets("[0,4.0]"), 4, places + "4.0"},
      {offsets("[0,18446744073709551615]"), 4, places + "18446744073709551615"},
      {offsets("[0,[4]]"), 4, places + "an array"},
  });
}

TEST(SafetensorsMalformed, SizesThatDisagree) {
  const auto spans = [](const std::string& right, const std::string& got) {
    return R"(tensor "a": data_offsets must span the )" + right + ", got " + got;
  };
  const auto too_many = [](const std::string& sizes) {
    return R"(tensor "a": F32 [)" + sizes + "] must have fewer than 2^63 bytes";
  };
  check_cases({
      {offsets("[4,0]"), 4, spans("4 bytes of F32 [1]", "[4, 0]")},
      {offsets("[0,3]"), 4, spans("4 bytes of F32 [1]", "[0, 3]")},
      {offsets("[0,5]"), 4, spans("4 bytes of F32 [1]", "[0, 5]")},
      {shape("[]"), 4, "accepted"},
      {shape("[2]"), 4, spans("8 bytes of F32 [2]", "[0, 4]")},
      {shape("[0]"), 4, spans("0 bytes of F32 [0]", "[0, 4]")},
      {shape("[2,3,0,5]"), 4, spans("0 bytes of F32 [2, 3, 0, 5]", "[0, 4]")},
      {dtype(R"("F64")"), 4, spans("8 bytes of F64 [1]", "[0, 4]")},
      {shape("[2305843009213693952,1]"), 4, too_many("2305843009213693952, 1")},
      {shape("[4294967296,4294967296]"), 4, too_many("4294967296, 4294967296")},
      {shape("[9223372036854775807,9223372036854775807]"), 4, too_many("9223372036854775807, 9223372036854775807")},
      // Modulo 2^64, this tensor would have 4 bytes, which would fit.
      {shape("[4611686018427387905]"), 4, too_many("4611686018427387905")},
      {shape("[0,4294967296,4294967296]"), 0, too_many("0, 4294967296, 4294967296")},
      {shape("[2305843009213693951]"), 4, spans("9223372036854775804 bytes of F32 [2305843009213693951]", "[0, 4]")},
      {R"({"a":{"dtype":"F32","shape":[2305843009213693951],"data_offsets":[0,9223372036854775804]}})", 4,
       "the tensors must fill the 4 bytes after the header, got 9223372036854775804"},
  });
}

TEST(SafetensorsMalformed, Layout) {
  const auto begin = [](const std::string& name, int end, int got) {
    return "tensor \"" + name + "\": data_offsets must begin at " + std::to_string(end) +
           ", where the preceding data ends, got " + std::to_string(got);
  };
  check_cases({
      {bytes_at({{0, 2}, {2, 4}}), 4, "accepted"},
      {bytes_at({{2, 4}, {0, 2}}), 4, "accepted"},
      {bytes_at({{0, 2}, {2, 2}, {2, 4}}), 4, "accepted"},
      {bytes_at({{1, 4}}), 4, begin("a", 0, 1)},
      {bytes_at({{0, 2}, {3, 4}}), 4, begin("b", 2, 3)},
      {bytes_at({{0, 2}, {1, 4}}), 4, begin("b", 2, 1)},
      {bytes_at({{0, 4}, {0, 4}}), 4, begin("b", 4, 0)},
      {bytes_at({{0, 4}, {2, 2}}), 4, begin("b", 4, 2)},
      {bytes_at({{0, 4}, {5, 5}}), 4, begin("b", 4, 5)},
      {bytes_at({{0, 3}}), 4, "the tensors must fill the 4 bytes after the header, got 3"},
      {bytes_at({{0, 5}}), 4, "the tensors must fill the 4 bytes after the header, got 5"},
      {bytes_at({{0, 1}}), 0, "the tensors must fill the 0 bytes after the header, got 1"},
      {"{}", 1, "the tensors must fill the 1 bytes after the header, got 0"},
      {"{}", 0, "accepted"},
  });
}

// A reader that recursed, or that kept memory for each level, would crash under the sanitizers.
TEST(SafetensorsMalformed, Depth) {
  const int levels = 1'000'000;
  check_cases({
      {"{\"a\":" + repeated("[", levels), 0, R"(tensor "a" must be an object, got an array)"},
      {repeated("{\"a\":", levels), 0, R"(tensor "a" must not contain nested objects)"},
      {shape(repeated("[", levels)), 0, R"(tensor "a": shape must be integers from 0 to 2^63 - 1, got an array)"},
  });
}

}  // namespace
}  // namespace foldgrad
