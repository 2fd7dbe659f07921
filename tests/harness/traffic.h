// A check of the global memory traffic of emulated kernels (emulation/global_memory.h).
#pragma once
#include <gtest/gtest.h>

#include "emulation/global_memory.h"

namespace foldgrad::testing {

// Checks that neighbouring lanes of a warp access neighbouring elements. The kernel may access up to 5 % more sectors
// than it needs, since an access can cover pieces of several rows.
inline ::testing::AssertionResult whole_sectors(const emulation::GlobalAccesses& a) {
  if (a.bytes > 0 && a.sectors * 100 <= a.least * 105) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << a.bytes << " bytes in " << a.sectors << " sectors, where " << a.least
                                       << " would do";
}

}  // namespace foldgrad::testing
