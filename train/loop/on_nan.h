// How training goes on after an update whose loss or gradient is not finite.
#pragma once
#include <array>

namespace foldgrad {

// In either way of going on, the same number of updates is made again with further batches, and nothing depends on how
// often Trainer::report() is called but where a rollback leads.
enum class OnNan {
  abort,    // throws Diverged
  skip,     // leaves out the batches of that update, as if they were not in the data
  rollback  // goes back to the state of the last report, and on with the batches after that update
};
constexpr auto names_of(OnNan) { return std::array{"abort", "skip", "rollback"}; }

}  // namespace foldgrad
