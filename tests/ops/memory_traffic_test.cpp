// How often kernels that are limited by memory go through their matrices, and in how many sectors.
#if defined(FOLDGRAD_EMULATE) && defined(FOLDGRAD_FAST)
#include <cmath>
#include <functional>

#include "emulation/bank_conflicts.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/center_norm/center_norm.h"
#include "ops/channel_sums/channel_sums.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/group_norm/group_norm.h"
#include "ops/image_input/image_input.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/reduce/reduce.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/traffic.h"

namespace foldgrad::testing {
namespace {

constexpr Random kRandom = {.seed = 1, .stream = 2, .step = 3};

struct Passes {
  std::string name;
  int forward, backward;  // over matrices [rows, columns]
  OpFunction f;           // of x [rows, columns] and two vectors [columns]
  bool by_rows = false;   // by engine/cpu/row_op.h
  int long_rows = 0;      // more passes backward where a warp cannot hold a row and what it adds to sums
};

// Forward a result is written and operands are read. Backward dx is written, and what it depends on is read.
const std::vector<Passes>& memory_bound() {
  static const std::vector<Passes> list = {
      {"scale", 2, 2, [](const std::vector<Var>& v) { return scale(v[0], 3); }},
      {"relu", 2, 3, [](const std::vector<Var>& v) { return relu(v[0]); }},
      {"dropout", 2, 2, [](const std::vector<Var>& v) { return dropout(v[0], 0.25, kRandom); }},
      {"bias_activation", 2, 3,
       [](const std::vector<Var>& v) { return bias_activation(v[0], v[1], Activation::gelu); }},
      {"affine", 2, 3, [](const std::vector<Var>& v) { return affine(v[0], v[1], v[2]); }},
      {"layer_norm", 2, 3, [](const std::vector<Var>& v) { return layer_norm(v[0], v[1], v[2]); }, true, 2},
      {"rms_norm", 2, 3, [](const std::vector<Var>& v) { return rms_norm(v[0], v[1]); }, true, 2},
      {"center_norm", 2, 3, [](const std::vector<Var>& v) { return center_norm(v[0], v[1], v[2]); }, true, 2},
      {"unit_rows", 2, 3, [](const std::vector<Var>& v) { return unit_rows(v[0]); }, true},
      {"softmax", 2, 3, [](const std::vector<Var>& v) { return softmax(v[0]); }, true},
  };
  return list;
}

struct Traffic {
  emulation::GlobalAccesses forward, backward;
};

// A gain or bias as models have them: gradients are f32, also where values are rounded to bf16.
Var recorded(Tape& tape, Parameter& p, DType dtype) {
  return dtype == DType::bf16 ? tape.parameter(p, p.value.to(dtype)) : tape.parameter(p);
}

Traffic traffic(const Passes& op, std::int64_t rows, std::int64_t columns, DType dtype) {
  const DType master = dtype == DType::f64 ? DType::f64 : DType::f32;
  Parameter gain{"gain", randn({columns}, 2).to(master).to(Device::cuda)},
      bias{"bias", randn({columns}, 3).to(master).to(Device::cuda)};
  Tape tape;
  const Var x = tape.variable(randn({rows, columns}, 1).to(dtype).to(Device::cuda));
  const std::vector<Var> v{x, recorded(tape, gain, dtype), recorded(tape, bias, dtype)};
  const Tensor dy = randn({rows, columns}, 4).to(dtype).to(Device::cuda);
  Traffic seen;
  const emulation::CountAccesses forward;
  const Var y = op.f(v);
  seen.forward = forward.result();
  const emulation::CountAccesses backward;
  tape.backward(y, dy);
  seen.backward = backward.result();
  return seen;
}

void expect_passes(const Passes& op, std::int64_t rows, std::int64_t columns, DType dtype) {
  const Traffic seen = traffic(op, rows, columns, dtype);
  const std::int64_t matrix = rows * columns * std::int64_t(size_of(dtype));
  const std::string what = fmt::format("{} of {} [{}, {}]", op.name, name(dtype), rows, columns);
  EXPECT_EQ(seen.forward.bytes, op.forward * matrix) << what << ", forward";
  const bool long_rows = columns > 1024;
  EXPECT_EQ(seen.backward.bytes, (op.backward + long_rows * op.long_rows) * matrix) << what << ", backward";
  EXPECT_TRUE(whole_sectors(seen.forward)) << what << ", forward";
  EXPECT_TRUE(whole_sectors(seen.backward)) << what << ", backward";
}

// A row has a few lanes of a warp, a warp and one more pack, several packs a thread, a block, and an odd number. What
// keeps rows in registers takes whole packs only.
TEST(MemoryTraffic, EveryNumberMovesOnceInWholeSectors) {
  for (const Passes& op : memory_bound())
    for (const auto& [rows, columns] :
         {std::pair{70, 40}, {9, 264}, {3, 1000}, {2, 1032}, {1, 4104}, {5, 33}, {3, 257}})
      if (columns % 8 == 0 || !op.by_rows)
        for (const DType dtype : {DType::f32, DType::bf16}) expect_passes(op, rows, columns, dtype);
}

// A block more than there are elements for would do nothing, or do it again.
TEST(MemoryTraffic, EachThreadHasAnElement) {
  for (const Passes& op : memory_bound())
    for (const auto& [rows, columns] : {std::pair{40, 512}, {100, 64}, {20, 1032}})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const emulation::RecordLaunches launches;
        traffic(op, rows, columns, dtype);
        EXPECT_FALSE(launches.all().empty());
        for (const emulation::Launch& launch : launches.all()) {
          const std::int64_t block = std::int64_t(launch.threads.x) * launch.threads.y * launch.threads.z;
          const std::int64_t blocks = std::int64_t(launch.blocks.x) * launch.blocks.y * launch.blocks.z;
          EXPECT_LT(blocks * block, rows * columns + block)
              << launch.kernel << " of " << op.name << " [" << rows << ", " << columns << "]";
        }
      }
}

// Sums over rows: of gains and biases, and of a channel's statistics.
TEST(MemoryTraffic, SumsMeetNoBankMoreThanTwice) {
  constexpr std::int64_t kRows = 9;  // blocks are the same with more
  for (const std::int64_t columns : {16, 40, 512, 1000, 33})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const auto expect_few_ways = [&](const std::string& op, const std::function<void()>& run) {
        const emulation::WorstBankConflict conflict;
        run();
        EXPECT_GT(conflict.ways(), 0) << op;
        EXPECT_LE(conflict.ways(), 2) << op << ", " << name(dtype) << ": " << conflict.where();
      };
      for (const Passes& op : memory_bound())
        if (op.name == "bias_activation" || op.name == "affine" || op.name.ends_with("_norm"))
          expect_few_ways(op.name, [&] { traffic(op, kRows, columns, dtype); });
      expect_few_ways("channel_moments", [&] {
        channel_moments(randn({kRows, columns}, 1).to(dtype).to(Device::cuda), true);
      });
    }
}

struct Cells {
  std::string name;
  double forward, backward;  // matrices of x's size
  OpFunction f;              // of x [8, 6, C]
};

// Operations that read or write at places of their own. Pooling walks down the rows of several samples at once: short
// rows must be whole sectors.
const std::vector<Cells>& by_cells() {
  static const std::vector<Cells> list = {
      {"mean_pool", 1 + 1 / 6., 1, [](const std::vector<Var>& v) { return mean_pool(v[0]); }},
      {"weighted_pool", 1 + 1 / 6., 2, [](const std::vector<Var>& v) { return weighted_pool(v[0], v[1]); }},
      {"permute of rows", 2, 2,
       [](const std::vector<Var>& v) {
         return permute(v[0], {1, 0, 2});
       }},
      // One value as both parts: a kernel of its own adds their gradients.
      {"concat", 4, 7,
       [](const std::vector<Var>& v) {
         return concat({v[0], v[0]}, 1);
       }},
      {"sinusoidal_positions", 2, 2,
       [](const std::vector<Var>& v) {
         const Tensor& x = v[0].value();
         const Tensor table = sinusoidal_table(8, x.shape()[2], x.dtype(), x.device());
         const Var rows = reshape(v[0], {48, x.shape()[2]});
         return sinusoidal_positions(rows, Segments::equal(8, 6).places(), table, /*zero_padding=*/true);
       }},
  };
  return list;
}

TEST(MemoryTraffic, EveryNumberMovesOnceAtPlacesOfItsOwn) {
  for (const Cells& op : by_cells())
    for (const std::int64_t columns : {48, 264, 33})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} of {} with {} columns", op.name, name(dtype), columns));
        Tape tape;
        const auto operand = [&](Shape shape, unsigned seed) {
          return tape.variable(randn(std::move(shape), seed).to(dtype).to(Device::cuda));
        };
        const Var x = operand({8, 6, columns}, 1), w = operand({8, 6}, 2);
        const double matrix = 8 * 6 * double(columns) * double(size_of(dtype));
        const emulation::CountAccesses forward;
        const Var y = op.f({x, w});
        EXPECT_EQ(double(forward.result().bytes), std::round(op.forward * matrix));
        EXPECT_TRUE(whole_sectors(forward.result()));
        const Tensor dy = randn(y.shape(), 4).to(dtype).to(Device::cuda);
        const emulation::CountAccesses backward;
        tape.backward(y, dy);
        EXPECT_EQ(double(backward.result().bytes), std::round(op.backward * matrix));
        EXPECT_TRUE(whole_sectors(backward.result()));
      }
}

// Groups are whole sectors. x is read three times, for the mean, the deviations and y. Backward both matrices twice,
// for means and dx, and once more for gamma and beta.
TEST(MemoryTraffic, GroupNormReadsGroupsInWholeSectors) {
  for (const std::int64_t columns : {48, 240, 1536})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} with {} columns", name(dtype), columns));
      Parameter gain{"gain", randn({columns}, 2).to(DType::f32).to(Device::cuda)},
          bias{"bias", randn({columns}, 3).to(DType::f32).to(Device::cuda)};
      Tape tape;
      const Var x = tape.variable(randn({8, 6, columns}, 1).to(dtype).to(Device::cuda)),
                gamma = recorded(tape, gain, dtype), beta = recorded(tape, bias, dtype);
      const std::int64_t matrix = x.value().size() * std::int64_t(size_of(dtype));
      const emulation::CountAccesses forward;
      const Segments samples = Segments::equal(8, 6).to(Device::cuda);
      const Var y = group_norm(x, gamma, beta, 3, &samples);
      EXPECT_EQ(forward.result().bytes, 4 * matrix);
      EXPECT_TRUE(whole_sectors(forward.result()));
      const emulation::CountAccesses backward;
      tape.backward(y, y.value());
      EXPECT_EQ(backward.result().bytes, 7 * matrix);
      EXPECT_TRUE(whole_sectors(backward.result()));
    }
}

// In tiles, whose edges lie within the matrix. Where rows are no whole packs, they are no whole sectors either.
TEST(MemoryTraffic, PermuteTransposesInWholeSectors) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tape tape;
    const Var x = tape.variable(randn({2, 48, 3, 80}, 1).to(dtype).to(Device::cuda));
    for (const std::vector<int>& axes : {std::vector{0, 3, 2, 1}, {3, 2, 0, 1}}) {
      const emulation::CountAccesses seen;
      permute(x, axes);
      EXPECT_EQ(seen.result().bytes, 2 * x.value().size() * std::int64_t(size_of(dtype)));
      EXPECT_TRUE(whole_sectors(seen.result()));
    }
  }
}

// The last part ends within a pack.
TEST(MemoryTraffic, SumReadsOnceAndImagesOfBytesAreReadAsSuch) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t size = std::int64_t(size_of(dtype)), n = 3 * 4096 + 40 + 16 / size;
    Tape tape;
    const Var x = tape.variable(randn({n}, 1).to(dtype).to(Device::cuda));
    const emulation::CountAccesses summed;
    const Var total = sum(x);
    EXPECT_EQ(summed.result().bytes, n * size);
    EXPECT_TRUE(whole_sectors(summed.result()));
    const emulation::CountAccesses spread;
    tape.backward(total);
    EXPECT_EQ(spread.result().bytes, n * size);
    EXPECT_TRUE(whole_sectors(spread.result()));

    Tape of_images;
    const Var bytes = of_images.constant(Tensor::zeros({2, 16, 16, 3}, DType::u8, Device::cuda));
    const emulation::CountAccesses images;
    image_input(bytes, {}, dtype);
    EXPECT_EQ(images.result().bytes, 2 * 16 * 16 * 3 * (1 + size));
    EXPECT_TRUE(whole_sectors(images.result()));
  }
}

// Windows share nothing, and the place of each maximum is a byte. Pixels that a window skips lie between the
// others, so that they must be whole sectors.
TEST(MemoryTraffic, MaxPoolReadsImagesOnce) {
  for (const std::int64_t channels : {64, 144, 512})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Tape tape;
      const Var x = tape.variable(randn({2, 4, 6, channels}, 1).to(dtype).to(Device::cuda));
      const emulation::CountAccesses forward;
      max_pool2d(x, {.kernel = 2, .stride = 2});
      const std::int64_t size = std::int64_t(size_of(dtype));
      EXPECT_EQ(forward.result().bytes, (2 * 4 * 6 * size + 2 * 2 * 3 * (size + 1)) * channels);
      EXPECT_TRUE(whole_sectors(forward.result())) << channels;
    }
}

// As many classes as registers hold: each logit is read once, and once more for the gradient.
TEST(MemoryTraffic, CrossEntropyReadsLogitsOnce) {
  for (const std::int64_t classes : {40, 1000, 10152}) {
    const Tensor targets = random_ids({3}, classes, 5).to(Device::cuda);
    const Tensor logits = randn({3, classes}, 1).to(DType::bf16).to(Device::cuda);
    Tape tape;
    const Var z = tape.variable(logits);
    const emulation::CountAccesses forward;
    const Var loss = cross_entropy(z, tape.constant(targets));
    EXPECT_EQ(forward.result().bytes, 3 * classes * 2);
    EXPECT_TRUE(whole_sectors(forward.result())) << classes;
    const emulation::CountAccesses backward;
    tape.backward(loss);
    EXPECT_EQ(backward.result().bytes, 2 * 3 * classes * 2);
    EXPECT_TRUE(whole_sectors(backward.result())) << classes;
  }
}

}  // namespace
}  // namespace foldgrad::testing
#endif
