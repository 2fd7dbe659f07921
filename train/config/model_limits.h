// Limits of a model's sizes: what a configuration may ask for is what config.json may say.
#pragma once
#include <cstdint>

namespace foldgrad {

constexpr std::int64_t kMostOfASize = INT32_MAX;
// The table of positions is the only memory that no file bears out.
constexpr std::int64_t kMostPositions = 1'000'000;

}  // namespace foldgrad
