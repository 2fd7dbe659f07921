#include <algorithm>
#include <cmath>

#include "train/data/images/shapes.h"

namespace foldgrad::shapes {
namespace {

// Not std::hypot, which takes care of overflow, and time.
float length(float x, float y) { return std::sqrt(x * x + y * y); }

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

float disc(float x, float y) { return length(x, y) - 0.95f; }
float ring(float x, float y) { return std::abs(length(x, y) - 0.75f) - 0.22f; }
float square(float x, float y) { return box(x, y, 0.72f, 0.72f); }
float frame(float x, float y) { return std::abs(box(x, y, 0.55f, 0.55f)) - 0.17f; }
float triangle(float x, float y) {
  return std::max(y, 0.8660254f * std::abs(x) - 0.5f * y) - 0.5f;  // the sides' normals point to 90, -30, 210 degrees
}
float cross(float x, float y) { return std::min(box(x, y, 0.95f, 0.27f), box(x, y, 0.27f, 0.95f)); }
// Within all five lines of a pentagram, or all but one: so the second largest distance to them decides.
float star(float x, float y) {
  constexpr float kNormals[5][2] = {{0, 1},
                                    {0.9510565f, 0.3090170f},
                                    {0.5877853f, -0.8090170f},
                                    {-0.5877853f, -0.8090170f},
                                    {-0.9510565f, 0.3090170f}};
  float largest = -2, second = -2;
  for (const auto& normal : kNormals) {
    const float d = normal[0] * x + normal[1] * y;
    second = std::max(second, std::min(largest, d));
    largest = std::max(largest, d);
  }
  return second - 0.3090170f;
}
float bars(float x, float y) { return box(x, std::abs(y) - 0.42f, 0.8f, 0.2f); }
float letter_l(float x, float y) { return std::min(box(x + 0.38f, y, 0.22f, 0.8f), box(x, y - 0.58f, 0.6f, 0.22f)); }
float crescent(float x, float y) { return std::max(length(x, y) - 0.95f, 0.75f - length(x - 0.45f, y)); }

constexpr struct {
  const char* name;
  float (*distance)(float x, float y);
} kShapes[] = {{"disc", disc},   {"ring", ring}, {"square", square}, {"frame", frame}, {"triangle", triangle},
               {"cross", cross}, {"star", star}, {"bars", bars},     {"L", letter_l},  {"crescent", crescent}};

}  // namespace

float distance(std::int64_t shape, float x, float y) { return kShapes[shape].distance(x, y); }
const char* name(std::int64_t shape) { return kShapes[shape].name; }

}  // namespace foldgrad::shapes
