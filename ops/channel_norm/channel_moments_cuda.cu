#include "ops/channel_norm/channel_moments_cuda.h"

namespace foldgrad {

template <class T>
void channel_moments_cuda(const ChannelMomentsPass<T>& p) {
  moments_cuda(p, Nothing());
}

FOLDGRAD_INSTANTIATE(channel_moments_cuda, ChannelMomentsPass);

}  // namespace foldgrad
