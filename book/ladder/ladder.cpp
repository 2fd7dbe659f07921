#include "book/ladder/ladder.h"

#include "engine/check.h"

namespace foldgrad::ladder {

template <class T>
void check(const char* name, const Product<T>& g, int chunk) {
  FOLDGRAD_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0, "ladder, {}: sizes must not be negative, got m {}, n {}, k {}", name,
                 g.m, g.n, g.k);
  FOLDGRAD_CHECK(
      g.k % chunk == 0 && g.n % chunk == 0,
      "ladder, {}: k and n must be multiples of {}, since rows are copied {} bytes at a time, got k {}, n {}", name,
      chunk, chunk * sizeof(T), g.k, g.n);
  for (const T* operand : {g.a, g.b})
    FOLDGRAD_CHECK(reinterpret_cast<std::uintptr_t>(operand) % (chunk * sizeof(T)) == 0,
                   "ladder, {}: {} must begin at a multiple of {} bytes, since it is copied that many bytes at a time",
                   name, operand == g.a ? "A" : "B", chunk * sizeof(T));
}

template void check(const char*, const Product<float>&, int);
template void check(const char*, const Product<bf16>&, int);

}  // namespace foldgrad::ladder
