#include "engine/cuda/late_totals.h"

#include <algorithm>
#include <vector>

namespace foldgrad {
namespace {

class WaitingTotals final : public LateTotals {
 public:
  void add(const LateTotal& total, const std::shared_ptr<void>& memory) override {
    waiting_.push_back(total);
    memory_.push_back(memory);
    if (waiting_.size() == LateTotalsTable::kMost) finish();
  }
  void finish_if_waiting(const void* gradient) override {
    const auto lies_in = [gradient](const auto* out, std::int64_t columns) {
      return out && gradient >= out && gradient < out + columns;
    };
    for (const LateTotal& total : waiting_)
      if (lies_in(total.out.data, total.columns) || lies_in(total.out.exact, total.columns)) return finish();
  }
  void finish() override {
    if (waiting_.empty()) return;
    LateTotalsTable table = {};
    table.count = int(waiting_.size());
    std::copy(waiting_.begin(), waiting_.end(), table.totals);
#ifdef FOLDGRAD_HAVE_CUDA  // without it nothing waits
    late_totals_cuda(table);
#endif
    forget();
  }
  void forget() override {
    waiting_.clear();
    memory_.clear();
  }

 private:
  std::vector<LateTotal> waiting_;
  std::vector<std::shared_ptr<void>> memory_;
};

}  // namespace

std::unique_ptr<LateTotals> make_late_totals() { return std::make_unique<WaitingTotals>(); }

}  // namespace foldgrad
