#include <cmath>

#include "book/ladder/cpu/cpu_ladder.h"

namespace foldgrad::ladder {

void naive_cpu(const Product<float>& g) {
  check("naive", g);
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < g.k; ++p) sum = std::fma(g.a[i * g.k + p], g.b[p * g.n + j], sum);
      g.c[i * g.n + j] = sum;
    }
}

}  // namespace foldgrad::ladder
