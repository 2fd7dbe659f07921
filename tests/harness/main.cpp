#include "engine/cpu/support.h"
#include "tests/harness/op_spec.h"

int main(int argc, char** argv) {
  foldgrad::require_cpu_support();
  foldgrad::testing::register_op_tests();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
