// The identity, for recordings of normalizers. Its backward pass returns dy unchanged, and sums dy (y - offset) over
// all positions of each channel.
//
// If y = offset + h(x) per channel, then sum dy (y - offset) over all positions is n G: n times the normalizer's
// gradient statistic, for any gain.
#pragma once
#include <memory>

#include "engine/tape.h"
#include "ops/channel_norm/channel_record.h"

namespace foldgrad {

// Returns y. Its backward pass writes record->gradient_sum; with a communicator, this is the sum over all ranks.
// y: [..., C]; offset: [C], f64 if y is f64, otherwise f32. Throws std::invalid_argument if offset does not fit y.
Var watch_channels(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record,
                   Communicator* communicator = nullptr);

}  // namespace foldgrad
