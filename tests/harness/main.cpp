#include <cstdio>

#include "engine/cpu/support.h"
#include "engine/device.h"
#include "tests/harness/op_spec.h"

int main(int argc, char** argv) {
  foldgrad::require_cpu_support();  // this function has already run; the call only links it
  foldgrad::testing::register_op_tests();
  ::testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests)) std::printf("CUDA: %s\n", foldgrad::cuda_description().c_str());
  return RUN_ALL_TESTS();
}
