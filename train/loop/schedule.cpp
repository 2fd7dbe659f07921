#include "train/loop/schedule.h"

#include <cmath>
#include <numbers>

#include "engine/check.h"
#include "models/options/names.h"

namespace foldgrad {

Schedule::Schedule(ScheduleOptions options) : options_(std::move(options)) {
  const ScheduleOptions& o = options_;
  const bool cosine = o.shape == ScheduleShape::cosine, inverse_sqrt = o.shape == ScheduleShape::inverse_sqrt;
  FOLDGRAD_CHECK(o.peak > 0 && std::isfinite(o.peak), "schedule: peak must be positive, got {}", o.peak);
  FOLDGRAD_CHECK(o.initial >= 0 && o.initial <= o.peak, "schedule: initial must be between 0 and the peak, {}, got {}",
                 o.peak, o.initial);
  FOLDGRAD_CHECK(o.warmup >= (inverse_sqrt ? 1 : 0), "schedule: warmup must be at least {}, got {}",
                 inverse_sqrt ? 1 : 0, o.warmup);
  FOLDGRAD_CHECK(o.minimum >= 0 && o.minimum <= (cosine ? o.peak : 0),
                 "schedule: minimum must be between 0 and {} with {}, got {}", cosine ? o.peak : 0, name(o.shape),
                 o.minimum);
  FOLDGRAD_CHECK(cosine ? o.total > o.warmup : o.total == 0, "schedule: total must be {} with {}, got {}",
                 cosine ? fmt::format("above the warm-up, {},", o.warmup) : "left at 0", name(o.shape), o.total);
}

double Schedule::lr(std::int64_t n) const {
  FOLDGRAD_CHECK(n >= 0, "schedule: n must be at least 0, got {}", n);
  const ScheduleOptions& o = options_;
  if (n < o.warmup) return o.initial + double(n) * ((o.peak - o.initial) / double(o.warmup));           // [SCH-1]
  if (o.shape == ScheduleShape::inverse_sqrt) return o.peak * std::sqrt(double(o.warmup) / double(n));  // [SCH-2]
  if (o.shape == ScheduleShape::constant) return o.peak;                                                // [SCH-4]
  if (n >= o.total) return o.minimum;
  const double done = double(n - o.warmup) / double(o.total - o.warmup);
  return o.minimum + (o.peak - o.minimum) * (1 + std::cos(std::numbers::pi * done)) / 2;  // [SCH-3]
}

}  // namespace foldgrad
