#include "engine/cuda/cells.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {
namespace {

template <class T, int N>
struct Forward {
  PositionsForward<T> p;

  __device__ void operator()(std::int64_t s, std::int64_t t, std::int64_t c) const {
    const std::int64_t r = s * p.length + t, position = p.position(r, t);
    const Pack<T, N> x = load_pack<N>(p.x + r * p.columns + c);
    const Pack<T, N> row = load_cached_pack<N>(p.table + position * p.columns + c);
    Pack<T, N> y;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) y.v[e] = T(p.sum(x.v[e], row.v[e]));
    store_pack(p.y + r * p.columns + c, y);
  }
};

}  // namespace

template <class T>
void positions_cuda(const PositionsForward<T>& p) {
  cells_in_packs_cuda<Forward>("positions forward", p.batch, p.length, p.columns, p, p.x, p.y, p.table);
}

FOLDGRAD_INSTANTIATE(positions_cuda, PositionsForward);

}  // namespace foldgrad
