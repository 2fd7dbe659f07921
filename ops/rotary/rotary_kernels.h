#pragma once
#include <cmath>

#include "engine/kernels.h"

namespace foldgrad {

// The forward and the backward pass both use this kernel, with opposite signs.
template <class T>
struct Rotary {
  GradOut<T> y;  // [rows, heads, pairs, 2], like x
  const T* x;
  const std::int64_t* places;                       // [rows]
  const compute_t<T>*cosines, *sines;               // [length, pairs]
  std::int64_t rows, heads, turned, pairs, length;  // heads starting at index `turned` are copied
  compute_t<T> sign;                                // sign of the angle: 1 or -1

  // Rotates pair i of head h in row r.
  FOLDGRAD_HD void operator()(std::int64_t r, std::int64_t h, std::int64_t i) const {
    const std::int64_t at = ((r * heads + h) * pairs + i) * 2, place = places[r];
    const compute_t<T> a = x[at], b = x[at + 1];
    if (h >= turned) {
      y.put(at, a);
      y.put(at + 1, b);
      return;
    }
    const bool known = 0 <= place && place < length;
    const compute_t<T> cosine = known ? cosines[place * pairs + i] : compute_t<T>(NAN);
    const compute_t<T> sine = known ? sign * sines[place * pairs + i] : compute_t<T>(NAN);
    y.put(at, cosine * a - sine * b);  // [ROT-2, ROT-3]
    y.put(at + 1, sine * a + cosine * b);
  }
};

FOLDGRAD_DECLARE(rotary, Rotary);

}  // namespace foldgrad
