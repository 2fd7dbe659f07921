// Tests how often memory-bound kernels read and write their matrices, and whether warps access whole sectors.
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
  int forward, backward;  // number of matrices [rows, columns] that a pass reads and writes
  OpFunction f;           // of x [rows, columns] and two vectors [columns]
  bool by_rows = false;   // true if engine/cpu/row_op.h runs it
  int long_rows = 0;      // further matrices in the backward pass if a row and its column sums do not fit a warp
};

// A forward pass reads x and writes y. A backward pass reads dy, reads x or y if dx depends on one of them, and writes
// dx.
const std::vector<Passes> kMemoryBound = {
    {"scale", 2, 2, [](auto& v) { return scale(v[0], 3); }},
    {"relu", 2, 3, [](auto& v) { return relu(v[0]); }},
    {"dropout", 2, 2, [](auto& v) { return dropout(v[0], 0.25, kRandom); }},
    {"bias_activation", 2, 3, [](auto& v) { return bias_activation(v[0], v[1], Activation::gelu); }},
    {"affine", 2, 3, [](auto& v) { return affine(v[0], v[1], v[2]); }},
    {"layer_norm", 2, 3, [](auto& v) { return layer_norm(v[0], v[1], v[2]); }, true, 2},
    {"rms_norm", 2, 3, [](auto& v) { return rms_norm(v[0], v[1]); }, true, 2},
    {"center_norm", 2, 3, [](auto& v) { return center_norm(v[0], v[1], v[2]); }, true, 2},
    {"unit_rows", 2, 3, [](auto& v) { return unit_rows(v[0]); }, true},
    {"softmax", 2, 3, [](auto& v) { return softmax(v[0]); }, true},
};

// Records a gain or bias as models do: its gradient is f32 even if its value is rounded to bf16.
Var recorded(Tape& tape, Parameter& p, DType dtype) {
  return dtype == DType::bf16 ? tape.parameter(p, p.value.to(dtype)) : tape.parameter(p);
}

Tensor on_device(const Shape& shape, unsigned seed, DType dtype) {
  return randn(shape, seed).to(dtype).to(Device::cuda);
}

// Calls measure(true, run) for the forward pass and measure(false, run) for the backward pass. measure() must call
// run(), which runs the pass.
template <class Measure>
void both_passes(const Passes& op, std::int64_t rows, std::int64_t columns, DType dtype, const Measure& measure) {
  const DType master = dtype == DType::f64 ? DType::f64 : DType::f32;
  Parameter gain{"gain", on_device({columns}, 2, master)}, bias{"bias", on_device({columns}, 3, master)};
  Tape tape;
  const Var x = tape.variable(on_device({rows, columns}, 1, dtype));
  const std::vector<Var> v{x, recorded(tape, gain, dtype), recorded(tape, bias, dtype)};
  const Tensor dy = on_device({rows, columns}, 4, dtype);
  Var y;
  measure(true, [&] { y = op.f(v); });
  measure(false, [&] { tape.backward(y, dy); });
}
void run(const Passes& op, std::int64_t rows, std::int64_t columns, DType dtype) {
  both_passes(op, rows, columns, dtype, [](bool, const auto& pass) { pass(); });
}

// Checks that run() reads and writes `bytes` bytes in total, in whole sectors.
template <class Run>
void expect_bytes(std::int64_t bytes, const Run& run) {
  const emulation::CountAccesses accesses;
  run();
  const emulation::GlobalAccesses seen = accesses.result();
  EXPECT_EQ(seen.bytes, bytes);
  EXPECT_TRUE(bytes == 0 || whole_sectors(seen));
}

void expect_passes(const Passes& op, std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t matrix = rows * columns * std::int64_t(size_of(dtype));
  const bool long_rows = columns > 1024;
  both_passes(op, rows, columns, dtype, [&](bool forward, const auto& pass) {
    SCOPED_TRACE(
        fmt::format("{} of {} [{}, {}], {}", op.name, name(dtype), rows, columns, forward ? "forward" : "backward"));
    expect_bytes((forward ? op.forward : op.backward + long_rows * op.long_rows) * matrix, pass);
  });
}

// A row takes a few lanes of a warp, a warp and one more pack, several packs per lane, or a block; some rows have an
// odd length. Row operations are tested only with rows of whole packs, since only these stay in registers and are read
// once.
TEST(MemoryTraffic, EveryNumberMovesOnceInWholeSectors) {
  for (const Passes& op : kMemoryBound)
    for (const auto& [rows, columns] :
         {std::pair{70, 40}, {9, 264}, {3, 1000}, {2, 1032}, {1, 4104}, {5, 33}, {3, 257}})
      if (columns % 8 == 0 || !op.by_rows)
        for (const DType dtype : {DType::f32, DType::bf16}) expect_passes(op, rows, columns, dtype);
}

// Checks that no launch has superfluous blocks, which would do nothing or repeat work.
TEST(MemoryTraffic, EachThreadHasAnElement) {
  for (const Passes& op : kMemoryBound)
    for (const auto& [rows, columns] : {std::pair{40, 512}, {100, 64}, {20, 1032}})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const emulation::RecordLaunches launches;
        run(op, rows, columns, dtype);
        EXPECT_FALSE(launches.all().empty());
        for (const emulation::Launch& launch : launches.all()) {
          const std::int64_t block = std::int64_t(launch.threads.x) * launch.threads.y * launch.threads.z;
          const std::int64_t blocks = std::int64_t(launch.blocks.x) * launch.blocks.y * launch.blocks.z;
          EXPECT_LT(blocks * block, rows * columns + block)
              << launch.kernel << " of " << op.name << " [" << rows << ", " << columns << "]";
        }
      }
}

// Tests the kernels that sum over rows: for gradients of gains and biases, and for statistics of channels.
TEST(MemoryTraffic, SumsMeetNoBankMoreThanTwice) {
  constexpr std::int64_t kRows = 9;  // more rows would not change a block
  for (const std::int64_t columns : {16, 40, 512, 1000, 33})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const auto expect_few_ways = [&](const std::string& op, const std::function<void()>& run) {
        const emulation::WorstBankConflict conflict;
        run();
        EXPECT_GT(conflict.ways(), 0) << op;
        EXPECT_LE(conflict.ways(), 2) << op << ", " << name(dtype) << ": " << conflict.where();
      };
      for (const Passes& op : kMemoryBound)
        if (op.name == "bias_activation" || op.name == "affine" || op.name.ends_with("_norm"))
          expect_few_ways(op.name, [&] { run(op, kRows, columns, dtype); });
      const Tensor x = on_device({kRows, columns}, 1, dtype);
      expect_few_ways("channel_moments", [&] { channel_moments(x, true); });
    }
}

struct Cells {
  std::string name;
  double forward, backward;  // number of matrices of x's size that a pass reads and writes
  OpFunction f;              // of x [8, 6, C]
};

// These operations read or write scattered elements. For pooling, a warp can read the same step of several samples at
// once, so short rows must be whole sectors.
const std::vector<Cells> kByCells = {
    {"mean_pool", 1 + 1 / 6., 1, [](auto& v) { return mean_pool(v[0]); }},
    {"weighted_pool", 1 + 1 / 6., 2, [](auto& v) { return weighted_pool(v[0], v[1]); }},
    {"permute of rows", 2, 2,
     [](auto& v) {
       return permute(v[0], {1, 0, 2});
     }},
    // Both parts are x, so a separate kernel adds their two gradients: it reads two matrices and writes one.
    {"concat", 4, 7,
     [](auto& v) {
       return concat({v[0], v[0]}, 1);
     }},
    {"sinusoidal_positions", 2, 0,
     [](auto& v) {
       const Tensor& x = v[0].value();
       const Tensor table = sinusoidal_table(8, x.shape()[2], x.dtype(), x.device());
       const Var rows = reshape(v[0], {48, x.shape()[2]});
       return sinusoidal_positions(rows, Segments::equal(8, 6).places(), table);
     }},
};

TEST(MemoryTraffic, EveryNumberMovesOnceAtPlacesOfItsOwn) {
  for (const Cells& op : kByCells)
    for (const std::int64_t columns : {48, 264, 33})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} of {} with {} columns", op.name, name(dtype), columns));
        Tape tape;
        const Var x = tape.variable(on_device({8, 6, columns}, 1, dtype)),
                  w = tape.variable(on_device({8, 6}, 2, dtype));
        const double matrix = 8 * 6 * double(columns) * double(size_of(dtype));
        Var y;
        expect_bytes(std::llround(op.forward * matrix), [&] { y = op.f({x, w}); });
        const Tensor dy = on_device(y.shape(), 4, dtype);
        expect_bytes(std::llround(op.backward * matrix), [&] { tape.backward(y, dy); });
      }
}

// The columns of each group are whole sectors. The forward pass reads x three times: for the mean, the variance and y.
// The backward pass reads x and dy three times: for means, for dx, and for dgamma and dbeta.
TEST(MemoryTraffic, GroupNormReadsGroupsInWholeSectors) {
  for (const std::int64_t columns : {48, 240, 1536})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} with {} columns", name(dtype), columns));
      Parameter gain{"gain", on_device({columns}, 2, DType::f32)}, bias{"bias", on_device({columns}, 3, DType::f32)};
      Tape tape;
      const Var x = tape.variable(on_device({8, 6, columns}, 1, dtype)), gamma = recorded(tape, gain, dtype),
                beta = recorded(tape, bias, dtype);
      const std::int64_t matrix = x.value().size() * std::int64_t(size_of(dtype));
      const Segments samples = Segments::equal(8, 6).to(Device::cuda);
      Var y;
      expect_bytes(4 * matrix, [&] { y = group_norm(x, gamma, beta, 3, &samples); });
      expect_bytes(7 * matrix, [&] { tape.backward(y, y.value()); });
    }
}

// Some tiles reach beyond the matrix. Its rows have 80 elements and its columns 48, so both consist of whole packs, and
// therefore of whole sectors.
TEST(MemoryTraffic, PermuteTransposesInWholeSectors) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tape tape;
    const Var x = tape.variable(on_device({2, 48, 3, 80}, 1, dtype));
    for (const std::vector<int>& axes : {std::vector{0, 3, 2, 1}, {3, 2, 0, 1}})
      expect_bytes(2 * x.value().size() * std::int64_t(size_of(dtype)), [&] { permute(x, axes); });
  }
}

// sum() divides x into four parts of different lengths. image_input() reads one byte for each value that it writes.
TEST(MemoryTraffic, SumReadsOnceAndImagesOfBytesAreReadAsSuch) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t size = std::int64_t(size_of(dtype)), n = 3 * 4096 + 40 + 16 / size;
    Tape tape;
    const Var x = tape.variable(on_device({n}, 1, dtype));
    Var total;
    expect_bytes(n * size, [&] { total = sum(x); });
    expect_bytes(n * size, [&] { tape.backward(total); });

    Tape of_images;
    const Var bytes = of_images.constant(Tensor::zeros({2, 16, 16, 3}, DType::u8, Device::cuda));
    expect_bytes(2 * 16 * 16 * 3 * (1 + size), [&] { image_input(bytes, {}, dtype); });
  }
}

// Windows do not overlap. For each window, the pass writes a value and one byte, the place of the maximum. A warp can
// read one pixel of each of several windows at once. These pixels are not adjacent, so each must consist of whole
// sectors.
TEST(MemoryTraffic, MaxPoolReadsImagesOnce) {
  for (const std::int64_t channels : {64, 144, 512})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(channels);
      Tape tape;
      const Var x = tape.variable(on_device({2, 4, 6, channels}, 1, dtype));
      const std::int64_t size = std::int64_t(size_of(dtype));
      expect_bytes((2 * 4 * 6 * size + 2 * 2 * 3 * (size + 1)) * channels, [&] { max_pool2d(x); });
    }
}

// The registers of a block can hold the logits of 16,384 classes, so the forward pass reads each logit only once. The
// backward pass reads it once more, and writes its gradient.
TEST(MemoryTraffic, CrossEntropyReadsLogitsOnce) {
  for (const std::int64_t classes : {40, 1000, 10152}) {
    SCOPED_TRACE(classes);
    const Tensor targets = random_ids({3}, classes, 5).to(Device::cuda);
    Tape tape;
    const Var z = tape.variable(on_device({3, classes}, 1, DType::bf16)), t = tape.constant(targets);
    Var loss;
    expect_bytes(3 * classes * 2, [&] { loss = cross_entropy(z, t); });
    expect_bytes(2 * 3 * classes * 2, [&] { tape.backward(loss); });
  }
}

}  // namespace
}  // namespace foldgrad::testing
#endif
