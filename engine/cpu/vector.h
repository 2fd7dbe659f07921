// Vectors of the width of engine/cpu/vector_width.h, for the few loops that assign registers by hand. There is no
// function for a fused multiply-add of vector types, so files that need one are compiled with -ffp-contract=fast
// (cmake/FoldgradTargets.cmake).
#pragma once
#include <cstdint>
#include <cstring>

#include "engine/cpu/vector_width.h"
#include "engine/dtype.h"

namespace foldgrad {

template <class V>
constexpr int kLanes = kVectorBytes / int(sizeof(V));

// Rounds n up to a whole number of vectors.
template <class V>
constexpr std::int64_t padded(std::int64_t n) {
  return (n + kLanes<V> - 1) / kLanes<V> * kLanes<V>;
}

template <class V>
struct VectorOf {
  typedef V type __attribute__((vector_size(kVectorBytes)));
};
template <class V>
using Vector = typename VectorOf<V>::type;
template <class V>
using VectorOrder = decltype(Vector<V>{} < Vector<V>{});  // integers as wide as V, for lane indices

template <class V>
Vector<V> load(const V* p) {
  Vector<V> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Vector<float> load(const bf16* p) {
  typedef std::uint16_t Half __attribute__((vector_size(kVectorBytes / 2)));
  Half half;
  std::memcpy(&half, p, sizeof half);
  return Vector<float>(__builtin_convertvector(half, Vector<std::uint32_t>) << 16);
}
template <class V>
void store(V* p, Vector<V> v) {
  std::memcpy(p, &v, sizeof v);
}

}  // namespace foldgrad
