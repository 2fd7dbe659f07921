// Tests that gradients are summed over ranks while the backward pass is still running.
#include "train/loop/gradient_sum.h"

#include <gtest/gtest.h>

#include <atomic>

#include "engine/node_grads.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/reduce/reduce.h"
#include "tests/engine/error_message.h"
#include "tests/engine/parallel/wired_processes.h"

namespace foldgrad::testing {
namespace {

// The identity, y = x. Its backward pass calls the hook and then passes the gradient on.
struct HookNode {
  std::function<void()> hook;
  const char* name() const { return "hook"; }
  void backward(NodeGrads& grads) {
    hook();
    grads.pass_dy(0);
  }
  void describe(Description&) const {}
};

// Runs a backward pass. It calls the hook when the second parameter's gradient is complete and the first's is not.
void backward_through(Tape& tape, GradientSum& sums, Parameter& first, Parameter& second,
                      const std::function<void()>& hook) {
  const Var x = tape.parameter(first);
  const Var y = mul(tape.record(x.value(), {x}, HookNode{hook}), tape.parameter(second));
  first.zero_grad(), second.zero_grad();
  sums.watch(tape);
  tape.backward(sum(y));
}

struct TwoParameters {
  Parameter first{"first", Tensor::full({4}, 2, DType::f32)}, second{"second", Tensor::full({4}, 3, DType::f32)};
  std::vector<Parameter*> both{&first, &second};
  Tape tape{};
};

class CountingProcesses final : public WiredProcesses {
 public:
  using WiredProcesses::WiredProcesses;
  void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                const std::function<void()>& waiting) override {
    WiredProcesses::exchange(process, tag_out, out, tag_in, in, waiting);
    ++exchanges;
  }
  std::atomic<int> exchanges = 0;
};

TEST(GradientSumOfTeam, BeginsDuringTheBackwardPass) {
  Wire wire;
  const auto process = [&](int rank) {
    CountingProcesses these(wire, rank, 2);
    Team({.ranks = 2, .processes = &these}).run([&](Communicator& c) {
      TwoParameters p;
      GradientSum sums(c, p.both, /*bucket_bytes=*/1);
      const int before = these.exchanges;
      const std::int64_t bytes_before = c.traffic().bytes;
      backward_through(p.tape, sums, p.first, p.second, [&] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);  // allows for a busy machine
        while (these.exchanges == before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        EXPECT_EQ(these.exchanges, before + 1);
      });
      std::vector<Tensor> losses;
      sums.finish(losses);
      EXPECT_EQ(p.first.grad.values<float>(), std::vector<float>(4, 6));
      EXPECT_EQ(p.second.grad.values<float>(), std::vector<float>(4, 4));
      EXPECT_EQ(c.traffic().bytes - bytes_before, 32);
    });
  };
  std::thread other(process, 1);
  process(0);
  other.join();
}

// Rank 1 never joins the sum that rank 0 has begun. Rank 0 must abandon the sum at once, not after the timeout of 1e6
// s.
TEST(GradientSumOfTeam, EndsWithAnExceptionOfTheBackwardPass) {
  const std::string text = message<std::invalid_argument>([] {
    Team({.ranks = 2, .timeout = 1e6}).run([](Communicator& c) {
      if (c.rank() == 1) {
        (void)c.another();
        return c.barrier();
      }
      TwoParameters p;
      GradientSum sums(c, p.both, 1);
      backward_through(p.tape, sums, p.first, p.second, [] { throw std::invalid_argument("of the hook"); });
    });
  });
  EXPECT_EQ(text, "of the hook");
}

}  // namespace
}  // namespace foldgrad::testing
