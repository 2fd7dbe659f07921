#include "engine/cuda/cells.h"
#include "ops/rotary/rotary_kernels.h"

namespace foldgrad {
namespace {

template <class T>
struct Turn {
  Rotary<T> p;

  __device__ void operator()(std::int64_t r, std::int64_t h, std::int64_t i) const { p.turn(r, h, i); }
};

}  // namespace

template <class T>
void rotary_cuda(const Rotary<T>& p) {
  cells_cuda("rotary", p.rows, p.heads, p.pairs, Turn<T>{p});
}

FOLDGRAD_INSTANTIATE(rotary_cuda, Rotary);

}  // namespace foldgrad
