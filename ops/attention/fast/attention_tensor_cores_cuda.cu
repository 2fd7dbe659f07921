// Computes attention in bf16 with tensor cores, for heads of 32, 64 or 128 columns. The speed-up has not been measured.
#include "ops/attention/fast/attention_mma.h"

namespace foldgrad {
namespace {

// The kernels count positions and blocks as int.
constexpr std::int64_t kMaxPositions = 1 << 30, kMaxHeads = 1 << 30, kMaxBlocks = 0x7fffffff;

bool suits(const AttentionShape& s) {
  const bool width = s.width == 32 || s.width == 64 || s.width == 128;
  const std::int64_t positions = s.longest_queries > s.longest_keys ? s.longest_queries : s.longest_keys,
                     heads = s.segments * s.heads;
  return width && positions <= kMaxPositions && heads <= kMaxHeads && heads * (positions / 16 + 1) <= kMaxBlocks;
}
bool aligned(const AttentionForward<bf16>& p) { return aligned_for_packs(16, p.y, p.q, p.k, p.v); }
bool aligned(const AttentionBackward<bf16>& p) {
  return aligned_for_packs(16, p.dq.data, p.dk.data, p.dv.data, p.dy, p.y, p.q, p.k, p.v);
}

}  // namespace

template <class P>
bool attention_by_tensor_cores(const P& p) {
  if constexpr (std::is_same_v<decltype(p.q), const bf16*>) {
    if (p.bias || !suits(p.shape) || !aligned(p)) return false;
    attention_mma_cuda(p);
    return true;
  }
  return false;
}

FOLDGRAD_INSTANTIATE_FASTER(attention_by_tensor_cores, AttentionForward);
FOLDGRAD_INSTANTIATE_FASTER(attention_by_tensor_cores, AttentionBackward);

}  // namespace foldgrad
