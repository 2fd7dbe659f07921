// Tests how --device is parsed, and which device it selects.
#include "train/system/device.h"

#include "engine/device.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

TEST(DeviceNames, AreParsed) {
  for (const char* plain : {"auto", "cpu", "cuda", "emulated"}) {
    const auto name = parse_device(plain);
    ASSERT_TRUE(name) << plain;
    EXPECT_EQ(name->kind, plain);
    EXPECT_EQ(name->index, 0);
  }
  EXPECT_EQ(parse_device("cuda:12")->index, 12);
  EXPECT_EQ(parse_device("cuda:12")->kind, "cuda");
  EXPECT_EQ(parse_device("emulated:1")->index, 1);
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda1", "cpu:0", "auto:1",
                            "cuda:99999", ":", "CUDA", "cuda:1:2"})
    EXPECT_FALSE(parse_device(wrong)) << wrong;
}

TEST(AutomaticDevice, IsTheFirstGpuWithoutTrouble) {
  const auto among = [](std::vector<std::string> troubles) {
    return automatic_device(int(troubles.size()), [=](int i) { return troubles[std::size_t(i)]; });
  };
  EXPECT_FALSE(among({}).index);
  EXPECT_EQ(among({}).trouble, "");
  EXPECT_EQ(among({""}).index, 0);
  EXPECT_EQ(among({"old", ""}).index, 1);
  EXPECT_EQ(among({"old", ""}).trouble, "");
  EXPECT_FALSE(among({"old", "broken"}).index);
  EXPECT_EQ(among({"old", "broken"}).trouble, "old");
}

TEST(RequireDevice, ChoosesForAllThatFollows) {
  EXPECT_EQ(require_device("cpu"), Device::cpu);
  EXPECT_EQ(name_of_chosen(Device::cpu), "cpu");
  EXPECT_EQ(message_of([] { require_device("tpu"); }), "--device tpu: must be auto, cpu, cuda, cuda:N or emulated");
  if (!cuda_is_emulated()) return;
  EXPECT_EQ(require_device("auto"), Device::cpu);  // auto never selects the emulation, which is only for tests
  EXPECT_EQ(require_device("emulated:1"), Device::cuda);
  EXPECT_EQ(cuda_device(), 1);
  EXPECT_EQ(name_of_chosen(Device::cuda), "emulated:1");
  EXPECT_EQ(require_device("emulated"), Device::cuda);
  EXPECT_EQ(name_of_chosen(Device::cuda), "emulated");
  EXPECT_EQ(message_of([] { require_device("emulated:2"); }),
            "--device emulated:2: there is no device 2: this process sees 2 GPUs, cuda:0 to cuda:1");
  EXPECT_EQ(message_of([] { require_device("cuda"); }), "--device cuda: not available; CUDA: emulated on the host");
}

}  // namespace
}  // namespace foldgrad::testing
