#include <algorithm>

#include "book/ladder/cpu/cpu_ladder.h"
#include "engine/check.h"
#include "engine/cpu/vector.h"

namespace foldgrad::ladder {

void vectors_cpu(const Product<float>& g) {
  check("vectors", g);
  FOLDGRAD_CHECK(g.n % kLanes<float> == 0, "ladder, vectors: n must be a multiple of {}, got {}", kLanes<float>, g.n);
  std::fill_n(g.c, g.m * g.n, 0.0f);
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t p = 0; p < g.k; ++p) {
      const float a = g.a[i * g.k + p];
      const float* b = g.b + p * g.n;
      float* c = g.c + i * g.n;
      for (std::int64_t j = 0; j < g.n; j += kLanes<float>) store(c + j, load(c + j) + a * load(b + j));
    }
}

}  // namespace foldgrad::ladder
