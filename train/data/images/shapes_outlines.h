// The outlines of the task `shapes`, for a circle of radius 1 around them.
#pragma once
#include <cstdint>

namespace foldgrad::shapes {

// How far (x, y) lies from the outline: negative within the shape. Beyond corners it is less than the distance, which
// sharpens them.
float distance(std::int64_t shape, float x, float y);
const char* name(std::int64_t shape);

}  // namespace foldgrad::shapes
