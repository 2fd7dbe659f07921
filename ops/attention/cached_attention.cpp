#include "ops/attention/cached_attention.h"

#include <cmath>

#include "engine/dispatch.h"
#include "ops/attention/cached_attention_kernels.h"

namespace foldgrad {
namespace {

Tensor addresses(const Tensor& q, const std::vector<Tensor>& blocks) {
  std::vector<std::int64_t> all;
  for (const Tensor& block : blocks) {
    check_operand("cached_attention", "a block", block, {block.defined() ? block.shape()[0] : 0, 2 * q.shape()[1]}, q,
                  "q");
    all.push_back(std::int64_t(reinterpret_cast<std::uintptr_t>(block.raw())));
  }
  return Tensor::of({std::int64_t(all.size())}, all, q.device());
}

}  // namespace

void CachePlaces::upload(Device device) {
  FOLDGRAD_CHECK(!uploaded_begins_.defined(), "cached_attention: places are uploaded once");
  uploaded_places_ = Tensor::of({std::int64_t(places_.size())}, places_, device);
  uploaded_begins_ = Tensor::of({std::int64_t(begins_.size())}, begins_, device);
}

Tensor cached_attention(const Tensor& q, const std::vector<Tensor>& blocks, const CachePlaces& places, int heads) {
  check_floating("cached_attention", "q", q, 2);
  FOLDGRAD_CHECK(q.shape().rank() == 2 && heads > 0 && q.shape()[1] % heads == 0,
                 "cached_attention: q must be [queries, heads * width] of {} heads, got {}", heads, q.shape());
  check_operand("cached_attention", "places", places.uploaded_begins_, {q.shape()[0] + 1}, DType::i64, q, "q");
  const std::int64_t width = q.shape()[1] / heads;
  const Tensor y = Tensor::empty(q.shape(), q.dtype(), q.device()), at = addresses(q, blocks);
  dispatch_floating("cached_attention", q.dtype(), [&]<class T>(Type<T>) {
    const CachedAttention<T> p{.y = y.data<T>(),
                               .q = q.data<T>(),
                               .blocks = at.data<std::int64_t>(),
                               .places = places.uploaded_places_.data<std::int64_t>(),
                               .begins = places.uploaded_begins_.data<std::int64_t>(),
                               .queries = q.shape()[0],
                               .heads = heads,
                               .width = width,
                               .scale = 1 / std::sqrt(double(width))};
    FOLDGRAD_RUN(q.device(), cached_attention, p);
  });
  return y;
}

}  // namespace foldgrad
