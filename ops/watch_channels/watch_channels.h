// The identity, with a backward pass that also sums the gradient per channel, for recordings of normalizers. Gradients
// pass unchanged, bit for bit.
//
// Where y = offset + h(x) per channel, sum dy (y - offset) is n G, n times the gradient statistic of the normalizer
// whatever its gain is; the sum is over all positions.
#pragma once
#include <memory>

#include "engine/tape.h"
#include "ops/channel_norm/channel_record.h"

namespace foldgrad {

// Returns y. Its backward pass writes record->gradient_sum, with a communicator of all ranks.
// y: [..., C]; offset: [C], f64 for f64 and otherwise f32. Throws std::invalid_argument for an offset that does not
// fit.
Var watch_channels(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record,
                   Communicator* communicator = nullptr);

}  // namespace foldgrad
