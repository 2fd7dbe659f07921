#include "ops/attention/cached_attention.h"

#include <cmath>

#include "engine/dispatch.h"
#include "ops/attention/cached_attention_kernels.h"

namespace foldgrad {
namespace {

constexpr const char* kOp = "cached_attention";

Tensor addresses(const Tensor& q, const std::vector<Tensor>& blocks, std::int64_t columns) {
  std::vector<std::int64_t> all;
  for (const Tensor& block : blocks) {
    check_floating(kOp, "a block", block, 2);
    check_operand(kOp, "a block", block, {block.shape()[0], blocks[0].shape()[1]}, q, "q");
    FOLDGRAD_CHECK(block.shape()[1] >= 2 * columns, "{}: a block must have at least {} columns, got {}", kOp,
                   2 * columns, block.shape());
    all.push_back(std::int64_t(reinterpret_cast<std::uintptr_t>(block.raw())));
  }
  return Tensor::of({std::int64_t(all.size())}, all, q.device());
}

}  // namespace

void CachePlaces::upload(Device device) {
  FOLDGRAD_CHECK(!uploaded_begins_.defined(), "{}: places can be uploaded only once", kOp);
  uploaded_places_ = Tensor::of({std::int64_t(places_.size())}, places_, device);
  uploaded_begins_ = Tensor::of({std::int64_t(begins_.size())}, begins_, device);
}

Tensor cached_attention(const Tensor& q, const std::vector<Tensor>& blocks, const CachePlaces& places, int heads,
                        std::int64_t width) {
  check_floating(kOp, "q", q, 2);
  const std::int64_t columns = heads * width;
  FOLDGRAD_CHECK(q.shape().rank() == 2 && columns > 0 && q.shape()[1] >= columns,
                 "{}: q must have 2 axes, the second for {} heads of {} columns, got {}", kOp, heads, width, q.shape());
  check_operand(kOp, "places", places.uploaded_begins_, {q.shape()[0] + 1}, DType::i64, q, "q");
  const Tensor y = Tensor::empty({q.shape()[0], columns}, q.dtype(), q.device()), at = addresses(q, blocks, columns);
  dispatch_floating(kOp, q.dtype(), [&]<class T>(Type<T>) {
    const CachedAttention<T> p{.y = y.data<T>(),
                               .q = q.data<T>(),
                               .blocks = at.data<std::int64_t>(),
                               .places = places.uploaded_places_.data<std::int64_t>(),
                               .begins = places.uploaded_begins_.data<std::int64_t>(),
                               .queries = q.shape()[0],
                               .heads = heads,
                               .width = width,
                               .q_row = q.shape()[1],
                               .cache_row = blocks.empty() ? 0 : blocks[0].shape()[1],
                               .scale = 1 / std::sqrt(double(width))};
    FOLDGRAD_RUN(q.device(), cached_attention, p);
  });
  return y;
}

}  // namespace foldgrad
