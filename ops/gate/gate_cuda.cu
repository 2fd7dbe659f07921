#include "engine/cuda/cells.h"
#include "ops/gate/gate_kernels.h"

namespace foldgrad {
namespace {

// Computes channels c ... c + N - 1 of position t of sample b.
template <class T, int N>
struct GateElements {
  GateForward<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t t, std::int64_t c) const {
    using Value = compute_t<T>;
    const std::int64_t i = (b * p.steps + t) * p.columns + c;
    const Pack<T, N> x = load_pack<N>(p.x + i), w = load_cached_pack<N>(p.w + b * p.columns + c);
    Value y[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) y[e] = Value(w.v[e]) * Value(x.v[e]);  // [GATE-1]
    store_pack(p.y + i, rounded<T>(y));
  }
};

// Computes the gradients of channels c ... c + N - 1 of sample b.
template <class T, int N>
struct GateGradients {
  GateBackward<T> p;

  __device__ void operator()(std::int64_t, std::int64_t b, std::int64_t c) const {
    using Value = compute_t<T>;
    const Pack<T, N> w = load_pack<N>(p.w + b * p.columns + c);
    Value sums[N] = {};
    for (std::int64_t t = 0; t < p.steps; ++t) {
      const std::int64_t i = (b * p.steps + t) * p.columns + c;
      const Pack<T, N> dy = load_pack<N>(p.dy + i), x = load_pack<N>(p.x + i);
      Value dx[N];
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e) {
        sums[e] += Value(dy.v[e]) * Value(x.v[e]);  // [GATE-3]
        dx[e] = Value(w.v[e]) * Value(dy.v[e]);     // [GATE-2]
      }
      if (p.dx) put_pack(p.dx, i, dx);
    }
    if (p.dw) put_pack(p.dw, b * p.columns + c, sums);
  }
};

}  // namespace

template <class T>
void gate_cuda(const GateForward<T>& p) {
  cells_in_packs_cuda<GateElements>("gate forward", p.batch, p.steps, p.columns, p, p.x, p.w, p.y);
}
template <class T>
void gate_cuda(const GateBackward<T>& p) {
  cells_in_packs_cuda<GateGradients>("gate backward", 1, p.batch, p.columns, p, p.dy, p.x, p.w, p.dx.data, p.dw.data);
}

FOLDGRAD_INSTANTIATE(gate_cuda, GateForward);
FOLDGRAD_INSTANTIATE(gate_cuda, GateBackward);

}  // namespace foldgrad
