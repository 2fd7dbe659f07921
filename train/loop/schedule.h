// Learning rates as functions of n, the number of updates made so far. There is no other state to resume.
//
//   All three begin with a linear warm-up of W updates:
//   [SCH-1]  lr(n) = initial + n (peak - initial) / W                                   for n < W
//   then
//   [SCH-2]  inverse_sqrt: lr(n) = peak sqrt(W / n)                                     as in fairseq
//   [SCH-3]  cosine:       lr(n) = minimum + (peak - minimum) (1 + cos(pi (n - W) / (T - W))) / 2 for n < T,
//                          then minimum                                                 Loshchilov, Hutter 2017
//   [SCH-4]  constant:     lr(n) = peak
#pragma once
#include <array>
#include <cstdint>

namespace foldgrad {

enum class ScheduleShape { inverse_sqrt, cosine, constant };
constexpr auto names_of(ScheduleShape) { return std::array{"inverse_sqrt", "cosine", "constant"}; }

struct ScheduleOptions {
  ScheduleShape shape = ScheduleShape::inverse_sqrt;
  double peak = 0;          // positive
  double initial = 0;       // between 0 and peak
  double minimum = 0;       // only for cosine; between 0 and peak
  std::int64_t warmup = 0;  // W; must be positive for inverse_sqrt, whose scale depends on it
  std::int64_t total = 0;   // T, only for cosine; must be above W
};

class Schedule {
 public:
  // Throws std::invalid_argument if a value is outside its range above.
  explicit Schedule(ScheduleOptions options);
  double lr(std::int64_t n) const;

 private:
  ScheduleOptions options_;
};

}  // namespace foldgrad
