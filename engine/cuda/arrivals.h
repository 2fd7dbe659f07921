// Counters with which the blocks of a kernel tell which of them is the last to be done (last_block.h).
#pragma once
#include <cstdint>

namespace foldgrad {

// `count` of them on cuda_device(), all zero between kernels, which share them since they run one after another. Throws
// std::invalid_argument for more than 65536.
unsigned* arrivals(std::int64_t count);

}  // namespace foldgrad
