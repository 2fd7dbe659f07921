// Totals of sums over rows that wait in a tape until many are added up in one launch (engine/cuda/late_totals.h).
#pragma once
#include <memory>

namespace foldgrad {

struct LateTotal;

class LateTotals {
 public:
  virtual ~LateTotals() = default;
  // `memory` is kept until the total is added up. No other total for the same place may be waiting.
  virtual void add(const LateTotal& total, const std::shared_ptr<void>& memory) = 0;
  // Before anybody else writes this gradient, which may be a part of one that waits.
  virtual void finish_if_waiting(const void* gradient) = 0;
  virtual void finish() = 0;
  virtual void forget() = 0;  // where backward was cut off
};
std::unique_ptr<LateTotals> make_late_totals();

}  // namespace foldgrad
