// Tests the emulation of several GPUs, of machines without a usable GPU, and of GPUs without free memory.
#include <thread>

#include "engine/cuda/runtime/device_guard.h"
#include "engine/cuda/runtime/emulated_devices.h"
#include "engine/memory.h"
#include "tests/harness/compare.h"

namespace foldgrad {
namespace {

using emulation::bytes_on;
using testing::message_of;
using Trouble = CudaMachine::Trouble;

class EmulatedDevices : public ::testing::Test {
 protected:
  void TearDown() override {
    emulation::set_devices({});
    for (const int index : {1, 0}) {
      use_cuda_device(index);
      memory::release_cache(Device::cuda);
    }
  }
  static std::string trouble_of(CudaMachine machine, int index = 0) {
    emulation::set_devices({machine, SIZE_MAX});
    return cuda_trouble(index);
  }
};

TEST_F(EmulatedDevices, EachHasMemoryOfItsOwn) {
  ASSERT_EQ(cuda_devices(), 2);
  const std::size_t before[] = {bytes_on(0), bytes_on(1)};
  std::shared_ptr<void> first = memory::allocate(Device::cuda, 1024);
  use_cuda_device(1);
  EXPECT_EQ(cuda_device(), 1);
  EXPECT_EQ(memory::statistics(Device::cuda).current, 0u);
  const std::shared_ptr<void> second = memory::allocate(Device::cuda, 4096);
  EXPECT_EQ(bytes_on(0) - before[0], 1024u);
  EXPECT_EQ(bytes_on(1) - before[1], 4096u);
  first.reset();  // the memory returns to device 0, although device 1 is in use
  EXPECT_EQ(memory::statistics(Device::cuda).cached, 0u);
  use_cuda_device(0);
  EXPECT_EQ(memory::statistics(Device::cuda).cached, 1024u);
  EXPECT_EQ(memory::allocate(Device::cuda, 1024).use_count(), 1);
  EXPECT_EQ(bytes_on(0) - before[0], 1024u);
}

TEST_F(EmulatedDevices, TheGuardChoosesForItsThreadAndBringsBack) {
  use_cuda_device(1);
  EXPECT_EQ(current_cuda_device(), 0);
  {
    const CudaDeviceGuard guard;
    EXPECT_EQ(current_cuda_device(), 1);
    std::thread other([] {
      EXPECT_EQ(current_cuda_device(), 0);
      const CudaDeviceGuard guard_there;
      EXPECT_EQ(current_cuda_device(), 1);
    });
    other.join();
  }
  EXPECT_EQ(current_cuda_device(), 0);
  use_cuda_device(0);
  set_current_cuda_device(1);  // as another library may do
  {
    const CudaDeviceGuard guard;
    EXPECT_EQ(current_cuda_device(), 0);
  }
  EXPECT_EQ(current_cuda_device(), 1);
  set_current_cuda_device(0);
}

TEST_F(EmulatedDevices, HandlesAreMadeOncePerDevice) {
  PerDevice<int> handles;
  int made = 0;
  const auto make = [&made] { return 10 * current_cuda_device() + ++made; };
  EXPECT_EQ(handles.here(make), 1);
  use_cuda_device(1);
  EXPECT_EQ(handles.here(make), 12);
  EXPECT_EQ(handles.here(make), 12);
  use_cuda_device(0);
  EXPECT_EQ(handles.here(make), 1);
  PerDevice<int> refused;
  EXPECT_THROW(refused.here([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(refused.here([] { return 7; }), 7);
}

TEST_F(EmulatedDevices, OnlyThoseThatAreThereCanBeChosen) {
  EXPECT_EQ(message_of([] { use_cuda_device(2); }), "cuda: the device number must be in [0, 1], got 2");
  EXPECT_EQ(message_of([] { use_cuda_device(-1); }), "cuda: the device number must be in [0, 1], got -1");
  EXPECT_EQ(cuda_device(), 0);
}

TEST_F(EmulatedDevices, TroubleSaysWhatToDo) {
  EXPECT_EQ(trouble_of({.trouble = Trouble::none, .devices = 2}, 1), "");
  EXPECT_EQ(trouble_of({.trouble = Trouble::none, .devices = 2}, 2),
            "there is no device 2: this process sees 2 GPUs, cuda:0 to cuda:1");
  EXPECT_EQ(trouble_of({.trouble = Trouble::none, .devices = 1}, 3),
            "there is no device 3: this process sees one GPU, cuda:0");
  EXPECT_EQ(trouble_of({.trouble = Trouble::no_driver}),
            "there is no NVIDIA driver on this machine; install one, or use --device cpu");
  EXPECT_EQ(trouble_of({.trouble = Trouble::driver_too_old, .driver = 12040, .toolkit = 13010}),
            "the NVIDIA driver is too old: it supports CUDA up to 12.4, but this program was built with 13.1; install "
            "a newer driver, or build with a toolkit that the driver supports");
  EXPECT_EQ(trouble_of({.trouble = Trouble::no_device}),
            "the NVIDIA driver makes no GPU visible to this process; check nvidia-smi and CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(trouble_of({.trouble = Trouble::no_kernel_image,
                        .devices = 1,
                        .name = "H100",
                        .capability = "9.0",
                        .built_for = "10.0, 12.0"}),
            "H100 has compute capability 9.0, but this program has kernels for 10.0, 12.0; configure it with "
            "-DCMAKE_CUDA_ARCHITECTURES=90 and build it again");
  EXPECT_EQ(trouble_of({.trouble = Trouble::no_kernel_image,
                        .devices = 1,
                        .name = "Tesla T4",
                        .capability = "7.5",
                        .built_for = "8.0, 9.0"}),
            "Tesla T4 has compute capability 7.5, but the kernels need 8.0 or newer; use --device cpu");
  EXPECT_EQ(trouble_of({.trouble = Trouble::other, .devices = 1, .message = "ECC error"}), "ECC error");
  EXPECT_FALSE(cuda_available());
  EXPECT_EQ(cuda_description(), "none: ECC error");
  EXPECT_EQ(message_of([] { memory::allocate(Device::cuda, 1); }), "memory: no CUDA device: ECC error");
}

TEST_F(EmulatedDevices, MemoryComesToAnEnd) {
  emulation::set_devices({{.devices = 2}, bytes_on(0) + 10240});
  std::shared_ptr<void> most = memory::allocate(Device::cuda, 8192);
  EXPECT_THROW(memory::allocate(Device::cuda, 4096), OutOfMemory);
  EXPECT_EQ(message_of([] { memory::allocate(Device::cuda, 4096); }), "memory: the GPU has no 4096 bytes left");
  most.reset();
  EXPECT_TRUE(memory::allocate(Device::cuda, 4096));  // frees cached memory first
  use_cuda_device(1);
  EXPECT_TRUE(memory::allocate(Device::cuda, 8192));
}

// Only running out of memory empties the cache. On a failed device, freeing memory would fail too and hide the first
// message.
TEST_F(EmulatedDevices, OtherFailuresLeaveTheCache) {
  memory::allocate(Device::cuda, 8192);
  const std::size_t cached = memory::statistics(Device::cuda).cached;
  ASSERT_GT(cached, 0u);
  emulation::set_devices(
      {{.trouble = CudaMachine::Trouble::other, .devices = 2, .message = "a kernel has failed"}, SIZE_MAX});
  const std::string message = message_of([] { memory::allocate(Device::cuda, 1 << 20); });
  EXPECT_NE(message.find("a kernel has failed"), std::string::npos) << message;
  EXPECT_EQ(memory::statistics(Device::cuda).cached, cached);
}

}  // namespace
}  // namespace foldgrad
