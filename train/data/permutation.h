// Orders of examples.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/philox.h"

namespace foldgrad {

// 0, 1, ..., n - 1.
std::vector<std::int64_t> counting(std::int64_t n);

// The same in the order that `random` gives: each order is as likely.
std::vector<std::int64_t> permutation(std::int64_t n, Random random);

}  // namespace foldgrad
