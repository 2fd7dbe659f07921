// Element types. Kernels include this file, so it must stay C++17 and use no libraries.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

// FOLDGRAD_HD marks formulas that the CPU loops and the CUDA kernels share.
#ifdef __CUDACC__
#define FOLDGRAD_HD __host__ __device__
#else
#define FOLDGRAD_HD
#endif

namespace foldgrad {

// f32, f64 and bf16 are for values and gradients, i32 and i64 for ids and lengths, and u8 for masks (0 or 1), pixels
// and small indices.
enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

// Brain floating point: the upper half of a float. It is only a storage type; arithmetic happens in float.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  bf16(const bf16&) = default;
  // Copies the bits explicitly: GCC 12 does not vectorise the default copy of a freshly computed struct.
  FOLDGRAD_HD bf16& operator=(const bf16& other) {
    bits = other.bits;
    return *this;
  }
  FOLDGRAD_HD bf16(float value) : bits(round(value)) {}
  // Rounds to odd first, then to bf16. Rounding to the nearest float first would round twice.
  FOLDGRAD_HD bf16(double value) : bits(round(to_odd(value))) {}
  FOLDGRAD_HD operator float() const {
    const std::uint32_t wide = std::uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }

 private:
  // Rounds to nearest, ties to even. Every NaN becomes 0x7fff, as in the GPU's conversion instruction.
  FOLDGRAD_HD static std::uint16_t round(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    std::uint16_t rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));  // nvcc merges two neighbouring conversions
    return rounded;
#else
    // Recognizes NaN by its bits: GCC 12 turns `value == value` into a branch, and then cannot vectorise the loop.
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    const std::uint32_t rounded = (wide + 0x7fffu + (wide >> 16 & 1u)) >> 16;
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    return std::uint16_t(nan ? 0x7fffu : rounded);
#endif
  }
  FOLDGRAD_HD static float to_odd(double value) {
    const float nearest = float(value);
    std::uint32_t wide;
    std::memcpy(&wide, &nearest, sizeof wide);
    const bool exact = double(nearest) == value || !(value == value) || (wide & 0x7f800000u) == 0x7f800000u;
    if (exact || (wide & 1u)) return nearest;
    const bool too_large = (double(nearest) > value) == (value > 0);  // nearest exceeds value in magnitude
    wide = too_large ? wide - 1 : wide + 1;
    float odd;
    std::memcpy(&odd, &wide, sizeof odd);
    return odd;
  }
};

// The type for arithmetic on T: float for bf16, otherwise T.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

template <class T>
constexpr DType dtype_of = T::not_an_element_type;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;

// Instantiates the kernel void FUNCTION(const PARAMS<T>&) for the three floating-point types.
#define FOLDGRAD_INSTANTIATE(FUNCTION, PARAMS)   \
  template void FUNCTION(const PARAMS<float>&);  \
  template void FUNCTION(const PARAMS<double>&); \
  template void FUNCTION(const PARAMS<bf16>&)
// Instantiates FUNCTION(const PARAMS<T, ARGUMENT>&) for the same three types.
#define FOLDGRAD_INSTANTIATE_OF(FUNCTION, PARAMS, ARGUMENT) \
  template void FUNCTION(const PARAMS<float, ARGUMENT>&);   \
  template void FUNCTION(const PARAMS<double, ARGUMENT>&);  \
  template void FUNCTION(const PARAMS<bf16, ARGUMENT>&)

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t kSizes[] = {4, 8, 2, 4, 8, 1};
  return kSizes[int(dtype)];
}

constexpr const char* name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  return "?";
}

constexpr bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16; }

}  // namespace foldgrad
