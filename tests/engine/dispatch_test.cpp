#include "engine/dispatch.h"

#include "tests/harness/compare.h"

namespace foldgrad {
namespace {

using testing::message_of;
constexpr DType kAll[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8};

TEST(Dispatch, EveryDTypeReachesItsType) {
  for (const DType dtype : kAll) {
    const DType got = dispatch_any(dtype, []<class T>(Type<T>) { return dtype_of<T>; });
    EXPECT_EQ(got, dtype);
  }
}

TEST(Dispatch, FloatingOnly) {
  const auto body = []<class T>(Type<T>) { return dtype_of<T>; };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    EXPECT_EQ(dispatch_floating("op", dtype, body), dtype);
  EXPECT_EQ(message_of([&] { dispatch_floating("relu", DType::i32, body); }),
            "relu: dtype must be f32, f64 or bf16, got i32");
}

// An undefined tensor must be rejected, although its shape and dtype are those of an f32 scalar.
TEST(CheckOperand, NothingIsNoScalar) {
  const Tensor x = Tensor::zeros({2}, DType::f32);
  EXPECT_EQ(message_of([&] { check_operand("op", "scale", {}, {}, x, "x"); }),
            "op: scale must be f32 [] on cpu (x is f32 [2] on cpu), got nothing");
}

TEST(CheckOperand, NamesTheDevice) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Tensor x = Tensor::zeros({2, 8}, DType::f32), gamma = Tensor::zeros({8}, DType::f32, Device::cuda);
  EXPECT_EQ(message_of([&] { check_operand("layer_norm", "gamma", gamma, {8}, x, "x"); }),
            "layer_norm: gamma must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [8] on cuda");
}

TEST(CheckFloating, NothingIsRefused) {
  EXPECT_EQ(message_of([] { check_floating("softmax", "x", {}); }), "softmax: x must be f32, f64 or bf16, got nothing");
}

}  // namespace
}  // namespace foldgrad
