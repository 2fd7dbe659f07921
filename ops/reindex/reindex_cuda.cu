#include "engine/cuda/cells.h"
#include "ops/reindex/reindex_kernels.h"

namespace foldgrad {
namespace {

template <class T, int N>
struct ReindexRows {
  Reindex<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t r, std::int64_t c) const {
    const Pack<T, N> x = load_pack<N>(p.from(b, r) + c);
    compute_t<T> y[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) y[e] = compute_t<T>(x.v[e]);
    put_pack(p.y, (b * p.rows + r) * p.columns + c, y);
  }
};

}  // namespace

template <class T>
void reindex_cuda(const Reindex<T>& p) {
  cells_in_packs_cuda<ReindexRows>("reindex", p.blocks, p.rows, p.columns, p, p.x, p.y.data);
}

FOLDGRAD_INSTANTIATE(reindex_cuda, Reindex);

}  // namespace foldgrad
