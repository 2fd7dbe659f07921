// Protobuf's wire format (protobuf.dev/programming-guides/encoding): a message is a sequence of fields in any order.
// Each begins with a key, which holds the field's number and the kind of its value.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace foldgrad::wire {

enum Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  return bytes + char(value);
}

template <class Number>
std::string bytes_of(Number value) {
  static_assert(std::endian::native == std::endian::little);  // because the files are little-endian
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string key(int field, Kind kind) { return varint(std::uint64_t(field << 3 | kind)); }
inline std::string number(int field, std::int64_t value) { return key(field, kVarint) + varint(std::uint64_t(value)); }
inline std::string number(int field, float value) { return key(field, kFixed32) + bytes_of(value); }
inline std::string number(int field, double value) { return key(field, kFixed64) + bytes_of(value); }
// Returns the key and the length that precede a string, bytes or a message.
inline std::string head(int field, std::uint64_t bytes) { return key(field, kBytes) + varint(bytes); }
inline std::string field(int field, std::string_view value) { return head(field, value.size()).append(value); }

}  // namespace foldgrad::wire
