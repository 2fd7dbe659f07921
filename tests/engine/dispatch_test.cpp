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

TEST(CheckOperand, SaysWhatItMustBeAndWhyAndWhatCame) {
  const Tensor x = Tensor::zeros({2, 8}, DType::f32), none;
  const auto message = [&](const Tensor& gamma) {
    return message_of([&] { check_operand("layer_norm", "gamma", gamma, {8}, x, "x"); });
  };
  const std::string start = "layer_norm: gamma must be f32 [8] on cpu, to match x, which is f32 [2, 8] on cpu, got ";
  EXPECT_EQ(message(Tensor::zeros({8}, DType::f32)), "no error");
  EXPECT_EQ(message(Tensor::zeros({4}, DType::f32)), start + "f32 [4] on cpu");
  EXPECT_EQ(message(Tensor::zeros({1, 8}, DType::f32)), start + "f32 [1, 8] on cpu");
  EXPECT_EQ(message(Tensor::zeros({8}, DType::f64)), start + "f64 [8] on cpu");
  EXPECT_EQ(message(none), start + "nothing");
  if (cuda_available()) {
    EXPECT_EQ(message(Tensor::zeros({8}, DType::f32, Device::cuda)), start + "f32 [8] on cuda");
  }
}

// An undefined tensor must not pass, although it has the shape and dtype of an f32 scalar.
TEST(CheckOperand, NothingIsNoScalar) {
  const Tensor x = Tensor::zeros({2}, DType::f32);
  EXPECT_EQ(message_of([&] { check_operand("op", "scale", {}, {}, x, "x"); }),
            "op: scale must be f32 [] on cpu, to match x, which is f32 [2] on cpu, got nothing");
}

TEST(CheckOperand, ADTypeOfItsOwn) {
  const Tensor x = Tensor::zeros({3}, DType::f32);
  const auto message = [&](DType dtype) {
    return message_of([&] { check_operand("masked_fill", "mask", Tensor::zeros({3}, dtype), {3}, DType::u8, x, "x"); });
  };
  EXPECT_EQ(message(DType::u8), "no error");
  EXPECT_EQ(message(DType::f32),
            "masked_fill: mask must be u8 [3] on cpu, to match x, which is f32 [3] on cpu, got f32 [3] on cpu");
}

TEST(CheckFloating, DTypeRankAndPresence) {
  const auto message = [](const Tensor& x, int rank) {
    return message_of([&] { check_floating("softmax", "x", x, rank); });
  };
  const auto start = [](int rank) {
    return "softmax: x must be f32, f64 or bf16" + (rank ? fmt::format(" of rank {} or more", rank) : "") + ", got ";
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    EXPECT_EQ(message(Tensor::zeros({3}, dtype), 1), "no error");
  EXPECT_EQ(message(Tensor::zeros({}, DType::f32), 0), "no error");
  EXPECT_EQ(message(Tensor::zeros({}, DType::f32), 1), start(1) + "f32 [] on cpu");
  EXPECT_EQ(message(Tensor::zeros({2, 3}, DType::i64), 2), start(2) + "i64 [2, 3] on cpu");
  EXPECT_EQ(message({}, 0), start(0) + "nothing");
}

TEST(CheckAxis, FromBothEnds) {
  const Shape shape = {2, 3, 5};
  EXPECT_EQ(check_axis("sum", 0, shape), 0);
  EXPECT_EQ(check_axis("sum", 2, shape), 2);
  EXPECT_EQ(check_axis("sum", -1, shape), 2);
  EXPECT_EQ(check_axis("sum", -3, shape), 0);
  EXPECT_EQ(message_of([&] { check_axis("sum", 3, shape); }), "sum: axis 3 does not exist in [2, 3, 5]");
  EXPECT_EQ(message_of([&] { check_axis("sum", -4, shape); }), "sum: axis -4 does not exist in [2, 3, 5]");
  EXPECT_EQ(message_of([] { check_axis("sum", 0, {}); }), "sum: axis 0 does not exist in []");
  EXPECT_EQ(message_of([] { check_axis("sum", -1, {}); }), "sum: axis -1 does not exist in []");
}

}  // namespace
}  // namespace foldgrad
