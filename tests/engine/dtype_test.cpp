#include "engine/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace foldgrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bf16 from_bits(std::uint16_t bits) {
  bf16 value;
  value.bits = bits;
  return value;
}

// Returns the value of a bf16 by the definition of the format: a sign, 8 bits of exponent with bias 127, and 7 bits of
// fraction. Does not assume that a bf16 is the upper half of a float. Returns 2^128 for infinity, the number that would
// follow the largest one, so that the rounding test can treat infinity like any other number.
double value_of(std::uint16_t bits) {
  const int exponent = bits >> 7 & 255, fraction = bits & 127;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return bits >> 15 ? -magnitude : magnitude;
}

constexpr std::uint16_t kInfinityBits = 0x7f80;

TEST(Bf16, EveryPatternIsTheFloatThatTheFormatSays) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = from_bits(std::uint16_t(bits));
    const int magnitude = bits & 0x7fff;
    if (magnitude > kInfinityBits)
      EXPECT_TRUE(std::isnan(value)) << bits;
    else if (magnitude == kInfinityBits)
      EXPECT_EQ(value, bits >> 15 ? -kInfinity : kInfinity) << bits;
    else
      EXPECT_TRUE(value == value_of(std::uint16_t(bits)) && std::signbit(value) == (bits >> 15)) << bits;
  }
}

TEST(Bf16, EveryPatternSurvivesTheRoundTrip) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = from_bits(std::uint16_t(bits));
    if (std::isnan(value)) {  // every NaN becomes 0x7fff
      EXPECT_EQ(bf16(value).bits, 0x7fff) << bits;
      EXPECT_EQ(bf16(double(value)).bits, 0x7fff) << bits;
    } else {
      EXPECT_EQ(bf16(value).bits, bits);
      EXPECT_EQ(bf16(double(value)).bits, bits);
    }
  }
}

// Between two neighbouring bf16 numbers, a number just below the midpoint rounds down, one just above it rounds up, and
// the midpoint rounds to even. The midpoint is also a float, and the doubles next to it would round to this float. So a
// conversion of these doubles by way of float would see a tie.
TEST(Bf16, RoundsOnceToNearestTiesToEven) {
  for (int bits = 0; bits < kInfinityBits; ++bits) {
    const int even = bits % 2 == 0 ? bits : bits + 1;
    const double below = value_of(std::uint16_t(bits)), above = value_of(std::uint16_t(bits + 1));
    const double middle = (below + above) / 2;  // exact
    for (const int sign : {0, 0x8000}) {
      const double s = sign ? -1 : 1;
      EXPECT_EQ(bf16(s * middle).bits, sign | even) << bits;
      EXPECT_EQ(bf16(s * std::nextafter(middle, 0.0)).bits, sign | bits) << bits;
      EXPECT_EQ(bf16(s * std::nextafter(middle, kInfinity)).bits, sign | (bits + 1)) << bits;
      EXPECT_EQ(bf16(s * std::nextafter(below, kInfinity)).bits, sign | bits) << bits;
      EXPECT_EQ(bf16(s * std::nextafter(above, 0.0)).bits, sign | (bits + 1)) << bits;
      const float float_middle = float(middle);
      ASSERT_EQ(double(float_middle), middle) << bits;
      EXPECT_EQ(bf16(float(s) * float_middle).bits, sign | even) << bits;
      EXPECT_EQ(bf16(float(s) * std::nextafter(float_middle, 0.0f)).bits, sign | bits) << bits;
      EXPECT_EQ(bf16(float(s) * std::nextafter(float_middle, INFINITY)).bits, sign | (bits + 1)) << bits;
    }
  }
}

TEST(Bf16, ExtremesOfDoubles) {
  EXPECT_EQ(bf16(0.0).bits, 0);
  EXPECT_EQ(bf16(-0.0).bits, 0x8000);
  EXPECT_EQ(bf16(kInfinity).bits, kInfinityBits);
  EXPECT_EQ(bf16(-kInfinity).bits, 0x8000 | kInfinityBits);
  EXPECT_EQ(bf16(std::numeric_limits<double>::max()).bits, kInfinityBits);
  EXPECT_EQ(bf16(std::numeric_limits<double>::denorm_min()).bits, 0);
  EXPECT_EQ(bf16(-std::numeric_limits<double>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, kInfinityBits);
  EXPECT_EQ(bf16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(bf16(std::nan("")).bits, 0x7fff);
  EXPECT_EQ(bf16(-std::nanf("")).bits, 0x7fff);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x7f800001u)).bits, 0x7fff);  // only the bits that bf16 drops make this a NaN
  EXPECT_EQ(bf16(std::bit_cast<float>(0xffffffffu)).bits, 0x7fff);  // rounding by an addition would carry into the sign
}

template <class T>
void check_type(DType dtype, std::size_t size, const std::string& text, bool floating) {
  EXPECT_EQ(dtype_of<T>, dtype);
  EXPECT_EQ(size_of(dtype), size);
  EXPECT_EQ(sizeof(T), size);
  EXPECT_EQ(name(dtype), text);
  EXPECT_EQ(is_floating(dtype), floating);
}

TEST(DType, SizesNamesAndTypes) {
  check_type<float>(DType::f32, 4, "f32", true);
  check_type<double>(DType::f64, 8, "f64", true);
  check_type<bf16>(DType::bf16, 2, "bf16", true);
  check_type<std::int32_t>(DType::i32, 4, "i32", false);
  check_type<std::int64_t>(DType::i64, 8, "i64", false);
  check_type<std::uint8_t>(DType::u8, 1, "u8", false);
  static_assert(std::is_same_v<compute_t<bf16>, float> && std::is_same_v<compute_t<float>, float> &&
                std::is_same_v<compute_t<double>, double>);
}

}  // namespace
}  // namespace foldgrad
