#include "ops/image_input/image_input.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

const ImageStatistics kStatistics{.mean = {0.49, 0.48, 0.45}, .std = {0.25, 0.24, 0.26}};

OpCase input_case(Shape shape, DType dtype) {
  return {.label = fmt::format("{} as {}", shape, name(dtype)),
          .operands = {random_ids(shape, 256, 1).to(DType::u8)},
          .f = [dtype](const std::vector<Var>& v) { return image_input(v[0], kStatistics, dtype); }};
}
OpError input_error(const char* message, Shape shape, DType dtype, ImageStatistics statistics = {},
                    DType result = DType::f32) {
  return {message, [=](Tape& t) { image_input(t.constant(Tensor::zeros(shape, dtype)), statistics, result); }};
}

// The numbers of pixels are below the 256 threads of a block, 257, or 3 * 256.
const RegisterOp kImageInput({
    .name = "image_input",
    .cases = {input_case({2, 3, 4, 3}, DType::f64), input_case({1, 1, 1, 3}, DType::f32),
              input_case({0, 2, 2, 3}, DType::f32), input_case({1, 257, 1, 3}, DType::bf16),
              input_case({3, 16, 16, 3}, DType::f32)},
    .errors = {input_error("image_input: x must be u8 [B, H, W, 3], got f32 [1, 2, 2, 3] on cpu", {1, 2, 2, 3},
                           DType::f32),
               input_error("image_input: x must be u8 [B, H, W, 3], got u8 [1, 3, 2, 2] on cpu", {1, 3, 2, 2},
                           DType::u8),
               input_error("image_input: x must be u8 [B, H, W, 3], got u8 [2, 2, 3] on cpu", {2, 2, 3}, DType::u8),
               input_error("image_input: the result must be f32, f64 or bf16, got i64", {1, 2, 2, 3}, DType::u8, {},
                           DType::i64),
               input_error("image_input: the mean must be finite, and the standard deviation finite and positive, got "
                           "0 and 0 for channel 2",
                           {1, 2, 2, 3}, DType::u8, {.std = {1, 1, 0}}),
               input_error("image_input: the mean must be finite, and the standard deviation finite and positive, got "
                           "0 and inf for channel 0",
                           {1, 2, 2, 3}, DType::u8, {.std = {INFINITY, 1, 1}}),
               input_error("image_input: the mean must be finite, and the standard deviation finite and positive, got "
                           "nan and 1 for channel 1",
                           {1, 2, 2, 3}, DType::u8, {.mean = {0, NAN, 0}})},
    .no_gradient = "bytes have none",
});

// Byte 51 is 51 / 255 = 1/5.
TEST(ImageInput, IMG_1_WorkedByHand) {
  expect_by_hand({.operands = {Tensor::of<std::uint8_t>({1, 1, 2, 3}, {0, 255, 51, 255, 0, 0})},
                  .y = {-1, 2, 0, 1, -2, -1.6},
                  .shape = Shape{1, 1, 2, 3}},
                 [](auto& v) {
                   return image_input(v[0], {.mean = {0.5, 0.5, 0.2}, .std = {0.5, 0.25, 0.125}}, DType::f64);
                 });
}

// The tolerance of f32 and f64 is 17 unit roundoffs. byte / 255, the mean and their difference are at most 1, and each
// is rounded; dividing by at least 0.24 turns these three roundoffs into 12.5. The standard deviation and y are also
// rounded; |y| is at most 2.2, so this adds 4.4. In bf16, only the rounding of y matters.
TEST(ImageInput, IMG_1_EveryByteInEveryType) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 256; ++i) bytes.insert(bytes.end(), 3, std::uint8_t(i));
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Tape tape;
      const Var x = tape.constant(Tensor::of({1, 16, 16, 3}, bytes, device));
      const Tensor y = image_input(x, kStatistics, dtype).value();
      ASSERT_EQ(y.dtype(), dtype);
      const std::vector<double> got = y.to(DType::f64).values<double>();
      const double tolerance = dtype == DType::bf16  ? 2.2 * std::ldexp(1, -8)
                               : dtype == DType::f32 ? 17 * std::ldexp(1, -24)
                                                     : 17 * std::ldexp(1, -53);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double want = (double(i / 3) / 255 - kStatistics.mean[i % 3]) / kStatistics.std[i % 3];
        EXPECT_LE(std::abs(got[i] - want), tolerance) << i;
      }
    }
}

}  // namespace
}  // namespace foldgrad::testing
