#include "engine/cuda/graph.h"

#include <algorithm>

#include "engine/accumulate.h"
#include "engine/cuda/capture.h"
#include "engine/memory.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

using Values = std::vector<float>;
constexpr std::int64_t kSize = 300;

Tensor on_device(float value) { return Tensor::full({kSize}, value, DType::f32, Device::cuda); }
Tensor room() { return Tensor::empty({kSize}, DType::f32, Device::cuda); }

class CudaGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
    std::vector<Tensor> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(room());  // for the cache
  }

  template <class F>
  std::string refusal_of(const F& body) {
    CudaGraph graph(reserve);
    try {
      graph.capture(body);
    } catch (const NotCapturable& e) {
      EXPECT_FALSE(capturing());
      return e.what();
    }
    return "captured";
  }

  const memory::Reserve reserve;
};

// y = 2 x + 1 by a kernel, two copies and two fills.
TEST_F(CudaGraphTest, AReplayDoesWhatWasCapturedWithWhatIsThereThen) {
  Tensor x = on_device(3), y = on_device(0);
  CudaGraph graph(reserve);
  graph.capture([&] {
    Tensor sum = on_device(1), nothing = room();
    nothing.zero();
    for (const Tensor& term : {x, x.clone(), nothing}) accumulate(sum, term);
    y.copy_from(sum);
  });
  EXPECT_EQ(y.values<float>(), Values(kSize, 0)) << "nothing has run";
  graph.replay();
  EXPECT_EQ(y.values<float>(), Values(kSize, 7));
  x.copy_from(on_device(5));
  graph.replay();
  EXPECT_EQ(y.values<float>(), Values(kSize, 11));
}

TEST_F(CudaGraphTest, MemoryOfACapturedGraphIsGivenToNobodyElse) {
  std::vector<const void*> blocks;
  Tensor older = on_device(0);
  blocks.push_back(older.raw());
  const auto body = [&] {
    const Tensor a = on_device(1), b = on_device(2);
    blocks.insert(blocks.end(), {a.raw(), b.raw()});
    older = Tensor();  // of the cache, and read by the graph so far
  };
  {
    CudaGraph graph(reserve);
    graph.capture(body);
    ASSERT_EQ(blocks.size(), 3u);
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) {
      others.push_back(room());
      EXPECT_EQ(std::ranges::count(blocks, others.back().raw()), 0);
    }
  }
  const std::vector<const void*> first = blocks;
  CudaGraph sister(reserve);
  sister.capture(body);
  for (std::size_t k = first.size(); k < blocks.size(); ++k)
    EXPECT_EQ(std::ranges::count(first, blocks[k]), 1) << "graphs of one reserve share its memory";
}

TEST_F(CudaGraphTest, ItsMemoryIsTheCachesAgainInTheEnd) {
  const std::size_t held = memory::statistics(Device::cuda).current;
  Tensor kept;
  {
    const memory::Reserve own;
    CudaGraph graph(own);
    graph.capture([&] { kept = on_device(1), on_device(2); });
    EXPECT_EQ(memory::statistics(Device::cuda).current, held + 2 * 1280) << "what is free in a reserve counts as held";
  }
  EXPECT_EQ(memory::statistics(Device::cuda).current, held + 2 * 1280) << "a tensor holds the reserve";
  kept = Tensor();
  EXPECT_EQ(memory::statistics(Device::cuda).current, held);
  const std::uint64_t allocations = memory::statistics(Device::cuda).system_allocations;
  std::vector<Tensor> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(room());
  EXPECT_EQ(memory::statistics(Device::cuda).system_allocations, allocations);
}

TEST_F(CudaGraphTest, WhatNeedsTheHostIsRefusedByName) {
  const Tensor x = on_device(3);
  const Values values(kSize, 5);
  EXPECT_EQ(refusal_of([&] { x.values<float>(); }), "capture: a copy to the host cannot be captured");
  EXPECT_EQ(refusal_of([&] { x.to(Device::cpu).to(Device::cuda); }), "capture: a copy to the host cannot be captured");
  EXPECT_EQ(refusal_of([&] { Tensor::of<float>({kSize}, values, Device::cuda); }),
            "capture: a copy from the host cannot be captured");
  EXPECT_EQ(refusal_of([] { cuda_synchronize(); }), "capture: cuda_synchronize() cannot be captured");
  EXPECT_EQ(refusal_of([] { Tensor::empty({123457}, DType::f32, Device::cuda); }),
            "capture: memory of the device that no cache has cannot be captured");
  EXPECT_EQ(refusal_of([&] { CudaGraph(reserve).capture([] {}); }),
            "capture: a graph within a graph cannot be captured");
  Tape tape;
  EXPECT_EQ(refusal_of([&] {
              const Tape::Scope encoder(tape, "encoder"), layer(tape, "layers.0");
              x.values<float>();
            }),
            "capture: a copy to the host at encoder.layers.0 cannot be captured");
  EXPECT_EQ(refusal_of([&] { on_device(1).clone().zero(); }), "captured");
}

TEST_F(CudaGraphTest, ABodyThatThrowsLeavesNothingCaptured) {
  CudaGraph graph(reserve);
  EXPECT_THROW(graph.replay(), std::logic_error);
  Tensor y = on_device(1);
  EXPECT_THROW(graph.capture([&] {
    y.zero();
    throw std::runtime_error("of its own");
  }),
               std::runtime_error);
  EXPECT_FALSE(capturing());
  EXPECT_THROW(graph.replay(), std::logic_error);
  EXPECT_EQ(y.values<float>(), Values(kSize, 1));
  graph.capture([&] { y.zero(); });
  graph.replay();
  EXPECT_EQ(y.values<float>(), Values(kSize, 0));
}

}  // namespace
}  // namespace foldgrad::testing
