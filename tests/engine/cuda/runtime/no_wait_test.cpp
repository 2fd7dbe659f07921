#include "engine/cuda/runtime/no_wait.h"

#include "engine/memory.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

class NoHostWaitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

template <class F>
std::string wait_of(const F& action) {
  const NoHostWait scope;
  try {
    action();
  } catch (const HostWait& e) {
    return e.what();
  }
  return "no wait";
}

TEST_F(NoHostWaitTest, WhatWaitsThrowsAndIsCounted) {
  const Tensor x = Tensor::full({300}, 3, DType::f32, Device::cuda);
  const std::int64_t before = host_waits();
  EXPECT_EQ(wait_of([&] { x.values<float>(); }), "host wait: a copy to the host");
  EXPECT_EQ(wait_of([] { cuda_synchronize(); }), "host wait: cuda_synchronize()");
  EXPECT_EQ(host_waits(), before) << "what was refused";
  EXPECT_EQ(x.values<float>(), std::vector<float>(300, 3));
  EXPECT_EQ(host_waits(), before + 1);
  cuda_synchronize();
  EXPECT_EQ(host_waits(), before + 2);
}

TEST_F(NoHostWaitTest, ScopesMayBeNested) {
  const NoHostWait outer;
  EXPECT_EQ(wait_of([] {}), "no wait");
  EXPECT_THROW(cuda_synchronize(), HostWait);
}

TEST_F(NoHostWaitTest, FillingAndCopyingToTheDeviceWaitForNothing) {
  const std::vector<float> values(300, 5);
  (void)Tensor::full({300}, 3, DType::f32, Device::cuda),
      Tensor::zeros({300}, DType::f32, Device::cuda);  // fills the cache
  Tensor filled, zero, copied, cloned;
  const std::int64_t before = host_waits();
  EXPECT_EQ(wait_of([&] {
              filled = Tensor::full({300}, 3, DType::f32, Device::cuda);
              filled.zero();
            }),
            "no wait");
  EXPECT_EQ(wait_of([&] { filled.copy_from(Tensor::of<float>({300}, values)); }), "no wait");
  EXPECT_EQ(host_waits(), before);
  EXPECT_EQ(filled.values<float>(), values);
}

TEST_F(NoHostWaitTest, MemoryThatNoCacheHasIsRefused) {
  memory::release_cache(Device::cuda);
  EXPECT_EQ(wait_of([] { Tensor::empty({300}, DType::f32, Device::cuda); }),
            "host wait: memory of the device that no cache has");
  (void)Tensor::empty({300}, DType::f32, Device::cuda);
  EXPECT_EQ(wait_of([] { Tensor::empty({300}, DType::f32, Device::cuda); }), "no wait");
}

// An operation that reads the device in one direction.
struct Curious {
  Tensor x;
  const char* name() const { return "curious"; }
  void backward(NodeGrads& grads) {
    x.values<float>();
    grads.pass_dy(0);
  }
};

TEST_F(NoHostWaitTest, MessagesSayWhereInTheModel) {
  const Tensor x = Tensor::full({1}, 3, DType::f32, Device::cuda);
  Tape tape;
  const auto forward = [&] {
    const Tape::Scope encoder(tape, "encoder"), layer(tape, "layers.0");
    x.values<float>();
  };
  EXPECT_EQ(wait_of(forward), "host wait: a copy to the host at encoder.layers.0");
  EXPECT_EQ(wait_of([&] { x.values<float>(); }), "host wait: a copy to the host");
  Var y = tape.variable(x.clone());
  {
    const Tape::Scope scope(tape, "decoder");
    y = tape.record(x.clone(), {y}, Curious{x});
  }
  EXPECT_EQ(wait_of([&] { tape.backward(y, x.clone()); }), "host wait: a copy to the host at decoder");
  EXPECT_EQ(wait_of([&] { x.values<float>(); }), "host wait: a copy to the host");
}

}  // namespace
}  // namespace foldgrad::testing
