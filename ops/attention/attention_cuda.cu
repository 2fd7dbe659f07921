#include <type_traits>

#include "engine/cuda/pack.h"
#include "ops/attention/attention_cuda.h"

namespace foldgrad {
namespace {

// The kernels count positions and blocks in int.
constexpr std::int64_t kMaxPositions = 1 << 30, kMaxHeads = 1 << 30, kMaxBlocks = 0x7fffffff;

bool suits(const AttentionShape& s) {
  const bool width = s.width == 32 || s.width == 64 || s.width == 128;
  const std::int64_t positions = s.longest_queries > s.longest_keys ? s.longest_queries : s.longest_keys,
                     heads = s.segments * s.heads;
  return width && positions <= kMaxPositions && heads <= kMaxHeads && heads * (positions / 16 + 1) <= kMaxBlocks;
}

template <class Params>
void choose(const Params& p) {
  if constexpr (std::is_same_v<decltype(p.q), const bf16*>) {
    if (suits_tensor_cores(p)) return attention_mma_cuda(p);
  }
  attention_plain_cuda(p);
}

}  // namespace

bool suits_tensor_cores(const AttentionForward<bf16>& p) {
  return suits(p.shape) && aligned_for_packs(16, p.y, p.q, p.k, p.v);
}
bool suits_tensor_cores(const AttentionBackward<bf16>& p) {
  return suits(p.shape) && aligned_for_packs(16, p.dq.data, p.dk.data, p.dv.data, p.dy, p.y, p.q, p.k, p.v);
}

template <class T>
void attention_cuda(const AttentionForward<T>& p) {
  choose(p);
}
template <class T>
void attention_cuda(const AttentionBackward<T>& p) {
  choose(p);
}

FOLDGRAD_INSTANTIATE(attention_cuda, AttentionForward);
FOLDGRAD_INSTANTIATE(attention_cuda, AttentionBackward);

}  // namespace foldgrad
