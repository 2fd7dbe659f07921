#include "engine/tensor.h"

#include "engine/memory.h"
#include "engine/named_tensors.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8};

Tensor counting(Shape shape) {
  std::vector<float> values(shape.elements());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  return Tensor::of(std::move(shape), values);
}

TEST(Tensor, UndefinedHasNothing) {
  Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(none.raw(), nullptr);
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_FALSE(none.clone().defined());
  EXPECT_FALSE(none.to(DType::f64).defined());
  EXPECT_FALSE(none.to(Device::cuda).defined());
  EXPECT_FALSE(none.shares_storage_with(none));
  none.zero();
  EXPECT_EQ(message_of([&] { none.values<float>(); }), "tensor: an undefined tensor has no values");
  EXPECT_EQ(message_of([&] { none.item(); }), "tensor: item() needs exactly one element, got nothing");
  Tensor scalar = Tensor::zeros({}, DType::f32);
  EXPECT_EQ(message_of([&] { scalar.copy_from(none); }), "tensor: cannot copy nothing into f32 [] on cpu");
  EXPECT_EQ(message_of([&] { none.copy_from(scalar); }), "tensor: cannot copy f32 [] on cpu into nothing");
}

TEST(Tensor, Factories) {
  for (const DType dtype : kAll) {
    const Tensor zeros = Tensor::zeros({2, 3}, dtype), full = Tensor::full({2, 3}, 7, dtype);
    EXPECT_TRUE(zeros.defined());
    EXPECT_EQ(zeros.dtype(), dtype);
    EXPECT_EQ(zeros.device(), Device::cpu);
    EXPECT_EQ(zeros.size(), 6);
    EXPECT_EQ(zeros.bytes(), 6 * size_of(dtype));
    EXPECT_EQ(zeros.to(DType::f64).values<double>(), std::vector<double>(6, 0));
    EXPECT_EQ(full.to(DType::f64).values<double>(), std::vector<double>(6, 7));
    EXPECT_EQ(Tensor::empty({4}, dtype).shape(), Shape{4});
  }
}

// zeros() must clear memory that another tensor has used.
TEST(Tensor, ZerosOfUsedMemory) {
  Tensor::full({100}, 5, DType::f32);
  EXPECT_EQ(Tensor::zeros({100}, DType::f32).values<float>(), std::vector<float>(100, 0));
}

TEST(Tensor, EmptyTensorsAreDefinedAndHaveNoAddress) {
  const Tensor empty = Tensor::zeros({0, 3}, DType::f32);
  EXPECT_TRUE(empty.defined());
  EXPECT_EQ(empty.data<float>(), nullptr);
  EXPECT_EQ(empty.bytes(), 0u);
  EXPECT_TRUE(empty.values<float>().empty());
  EXPECT_TRUE(empty.clone().defined());
  EXPECT_EQ(empty.to(DType::bf16).shape(), (Shape{0, 3}));
}

TEST(Tensor, FactoriesRefuse) {
  EXPECT_EQ(message_of([] { Tensor::of<float>({2, 2}, {1, 2, 3}); }), "tensor: shape [2, 2] needs 4 values, got 3");
  EXPECT_EQ(message_of([] { Tensor::of<float>({}, {}); }), "tensor: shape [] needs 1 values, got 0");
  // Modulo 2^64, this tensor would have 8 bytes.
  const std::int64_t size = (std::int64_t(1) << 61) + 1;
  EXPECT_EQ(message_of([&] { Tensor::empty({size}, DType::f64); }),
            "tensor: f64 [2305843009213693953] must have fewer than 2^63 bytes");
}

TEST(Tensor, DataChecksTheType) {
  const Tensor x = counting({3});
  EXPECT_EQ(x.data<float>()[2], 2);
  EXPECT_EQ(message_of([&] { x.data<bf16>(); }), "tensor: requested bf16 data from a tensor of type f32");
  EXPECT_EQ(message_of([&] { x.values<std::int64_t>(); }), "tensor: requested i64 data from a tensor of type f32");
}

TEST(Tensor, CopiesShareClonesDoNot) {
  const Tensor x = counting({3}), copy = x, clone = x.clone();
  EXPECT_TRUE(copy.shares_storage_with(x));
  EXPECT_FALSE(clone.shares_storage_with(x));
  x.data<float>()[0] = 9;
  EXPECT_EQ(copy.values<float>(), (std::vector<float>{9, 1, 2}));
  EXPECT_EQ(clone.values<float>(), (std::vector<float>{0, 1, 2}));
}

TEST(Tensor, ReshapeIsAView) {
  const Tensor x = counting({2, 6});
  EXPECT_EQ(x.reshape({3, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(x.reshape({3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(x.reshape({-1}).shape(), (Shape{12}));
  EXPECT_EQ(x.reshape({2, 2, -1, 1}).shape(), (Shape{2, 2, 3, 1}));
  EXPECT_EQ(x.reshape({12, -1}).shape(), (Shape{12, 1}));
  EXPECT_EQ(x.reshape(Shape{4, 3}).shape(), (Shape{4, 3}));
  EXPECT_EQ(counting({1}).reshape(Shape()).shape(), Shape());
  EXPECT_EQ(Tensor::zeros({0, 3}, DType::f32).reshape({3, -1}).shape(), (Shape{3, 0}));
  const Tensor view = x.reshape({3, -1});
  EXPECT_TRUE(view.shares_storage_with(x));
  view.data<float>()[11] = 50;
  EXPECT_EQ(x.values<float>()[11], 50);
}

TEST(Tensor, ReshapeRefuses) {
  const Tensor x = counting({2, 6});
  const auto message = [](const Tensor& t, std::vector<std::int64_t> sizes) {
    return message_of([&] { t.reshape(sizes); });
  };
  EXPECT_EQ(message(x, {5, 2}), "reshape: [5, 2] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(x, {5, -1}), "reshape: [5, -1] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(x, {-1, -1}), "reshape: [-1, -1] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(x, {-2, -6}), "reshape: [-2, -6] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(x, {0, -1}), "reshape: [0, -1] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(x, {}), "reshape: [] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(x, {INT64_MAX, 2}), "reshape: [9223372036854775807, 2] does not fit the 12 elements of [2, 6]");
  EXPECT_EQ(message(Tensor::zeros({0, 3}, DType::f32), {0, -1}),
            "reshape: [0, -1] does not fit the 0 elements of [0, 3]");
}

TEST(Tensor, SliceIsAViewOfRows) {
  const Tensor x = counting({4, 3});
  Tensor middle = x.slice(1, 3);
  EXPECT_EQ(middle.shape(), (Shape{2, 3}));
  EXPECT_EQ(middle.values<float>(), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(middle.slice(1, 2).values<float>(), (std::vector<float>{6, 7, 8}));
  EXPECT_EQ(middle.slice(1, 2).reshape({3}).slice(2, 3).item(), 8);
  EXPECT_TRUE(middle.shares_storage_with(x));
  middle.zero();
  EXPECT_EQ(x.values<float>(), (std::vector<float>{0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 10, 11}));
  EXPECT_EQ(x.slice(4, 4).shape(), (Shape{0, 3}));
  EXPECT_EQ(x.slice(0, 4).values<float>(), x.values<float>());
  const Tensor clone = x.slice(3, 4).clone();
  EXPECT_EQ(clone.values<float>(), (std::vector<float>{9, 10, 11}));
  EXPECT_EQ(Tensor::of<std::int64_t>({3}, {5, 6, 7}).slice(2, 3).values<std::int64_t>(), std::vector<std::int64_t>{7});
}

TEST(Tensor, SliceRefuses) {
  const Tensor x = counting({4, 3});
  const auto message = [](const Tensor& t, std::int64_t begin, std::int64_t end) {
    return message_of([&] { t.slice(begin, end); });
  };
  EXPECT_EQ(message(x, 0, 5), "slice: [0, 5) must lie within the leading axis of [4, 3]");
  EXPECT_EQ(message(x, -1, 2), "slice: [-1, 2) must lie within the leading axis of [4, 3]");
  EXPECT_EQ(message(x, 3, 2), "slice: [3, 2) must lie within the leading axis of [4, 3]");
  EXPECT_EQ(message(Tensor::zeros({}, DType::f32), 0, 0), "slice: [0, 0) must lie within the leading axis of []");
}

// Storage lives as long as its last view.
TEST(Tensor, AViewKeepsTheStorage) {
  const std::size_t before = memory::statistics(Device::cpu).current;
  Tensor view;
  {
    const Tensor x = counting({64, 4});
    view = x.slice(63, 64);
  }
  EXPECT_EQ(view.values<float>(), (std::vector<float>{252, 253, 254, 255}));
  EXPECT_EQ(memory::statistics(Device::cpu).current, before + 1024);
  view = {};
  EXPECT_EQ(memory::statistics(Device::cpu).current, before);
}

TEST(Tensor, ExternalMemoryLivesAsLongAsItsTensors) {
  const auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  Tensor rows = Tensor::external(owner->data(), {3, 2}, DType::f32, owner);
  EXPECT_FALSE(rows.owns_storage());
  EXPECT_EQ(rows.raw(), owner->data());
  Tensor last = rows.slice(2, 3);
  rows = last.clone();
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_TRUE(last.is_external() && !last.owns_storage());
  EXPECT_TRUE(!rows.is_external() && rows.owns_storage());
  EXPECT_EQ(last.values<float>(), (std::vector<float>{5, 6}));
  last = {};
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Tensor, CopyFrom) {
  const Tensor x = counting({2, 2});
  Tensor y = Tensor::zeros({2, 2}, DType::f32);
  y.slice(1, 2).copy_from(x.slice(0, 1));
  EXPECT_EQ(y.values<float>(), (std::vector<float>{0, 0, 0, 1}));
  EXPECT_EQ(message_of([&] { y.copy_from(counting({4})); }),
            "tensor: cannot copy f32 [4] on cpu into f32 [2, 2] on cpu");
  EXPECT_EQ(message_of([&] { y.copy_from(x.to(DType::f64)); }),
            "tensor: cannot copy f64 [2, 2] on cpu into f32 [2, 2] on cpu");
}

TEST(Tensor, Item) {
  for (const DType dtype : kAll) EXPECT_EQ(Tensor::full({1, 1}, 5, dtype).item(), 5) << name(dtype);
  EXPECT_EQ(Tensor::of<double>({}, {0.1}).item(), 0.1);
  EXPECT_EQ(counting({2, 3}).reshape({6}).slice(4, 5).item(), 4);
  EXPECT_EQ(message_of([] { counting({2}).item(); }), "tensor: item() needs exactly one element, got f32 [2] on cpu");
  EXPECT_EQ(message_of([] { counting({0}).item(); }), "tensor: item() needs exactly one element, got f32 [0] on cpu");
}

// Small integers are exact in every dtype, so converting them to one dtype and then to another must not change them.
TEST(Tensor, ConvertsBetweenAllDTypes) {
  const Tensor numbers = Tensor::of<std::uint8_t>({2, 3}, {0, 1, 2, 3, 100, 127});
  for (const DType from : kAll)
    for (const DType to : kAll) {
      const Tensor converted = numbers.to(from).to(to);
      EXPECT_EQ(converted.dtype(), to);
      EXPECT_TRUE(identical(converted.to(DType::u8), numbers)) << name(from) << " to " << name(to);
    }
  EXPECT_TRUE(numbers.to(DType::u8).shares_storage_with(numbers));
}

TEST(Tensor, ConversionsRoundOnce) {
  // A conversion by way of float would round 1 + 2^-8 + 2^-40 to the midpoint between two bf16 numbers.
  const double up = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  EXPECT_EQ(Tensor::of<double>({}, {up}).to(DType::bf16).item(), 1 + std::ldexp(1, -7));
  // The same would happen to the integer 2^25 + 2^17 + 1.
  const std::int32_t n = (1 << 25) + (1 << 17) + 1;
  EXPECT_EQ(Tensor::of<std::int32_t>({}, {n}).to(DType::bf16).item(), (1 << 25) + (1 << 18));
  EXPECT_EQ(Tensor::of<std::int64_t>({}, {n}).to(DType::bf16).item(), (1 << 25) + (1 << 18));
  // A conversion by way of double would round 2^60 + 2^36 + 1 to the midpoint between two floats.
  const std::int64_t large = (std::int64_t(1) << 60) + (std::int64_t(1) << 36) + 1;
  EXPECT_EQ(Tensor::of<std::int64_t>({}, {large}).to(DType::f32).item(), std::ldexp(1, 60) + std::ldexp(1, 37));
  const double nan = Tensor::of<double>({}, {NAN}).to(DType::bf16).item();
  EXPECT_TRUE(std::isnan(nan));
  EXPECT_EQ(Tensor::of<double>({}, {-1e300}).to(DType::bf16).item(), -INFINITY);
}

TEST(Tensor, BetweenDevices) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Tensor x = counting({4, 3}), there = x.to(Device::cuda);
  EXPECT_EQ(there.device(), Device::cuda);
  EXPECT_TRUE(there.to(Device::cuda).shares_storage_with(there));
  EXPECT_EQ(there.slice(1, 3).values<float>(), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(there.slice(3, 4).reshape({3}).slice(1, 2).item(), 10);
  EXPECT_EQ(there.to(DType::i64).device(), Device::cuda);
  EXPECT_TRUE(identical(there.to(DType::i64).to(Device::cpu), x.to(DType::i64)));
  there.slice(0, 1).zero();
  there.slice(1, 2).copy_from(x.slice(3, 4));
  const Tensor clone = there.clone();
  EXPECT_EQ(clone.values<float>(), (std::vector<float>{0, 0, 0, 9, 10, 11, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(Tensor::full({2}, 3, DType::bf16, Device::cuda).to(DType::f32).values<float>(), (std::vector<float>{3, 3}));
}

Tensor one(float value) { return Tensor::of<float>({1}, {value}); }

TEST(NamedTensors, ClonesShareNothing) {
  const NamedTensors tensors{{"a", one(1)}};
  NamedTensors copies = clone(tensors);
  copies.at("a").zero();
  EXPECT_EQ(tensors.at("a").values<float>(), std::vector<float>{1});
}

TEST(NamedTensors, NothingIsWrittenUnlessAllFits) {
  const NamedTensors own{{"a", one(1)}, {"b", one(2)}};
  const auto refusal = [&](const NamedTensors& from) { return message_of([&] { copy_into("me", own, from); }); };
  EXPECT_EQ(refusal({{"a", one(3)}}), "me: the saved state has no b");
  EXPECT_EQ(refusal({{"a", one(3)}, {"b", Tensor::zeros({2}, DType::f32)}}),
            "me: b of the saved state must be f32 [1], got f32 [2] on cpu");
  EXPECT_EQ(refusal({{"a", one(3)}, {"b", Tensor::zeros({1}, DType::f64)}}),
            "me: b of the saved state must be f32 [1], got f64 [1] on cpu");
  EXPECT_EQ(refusal({{"a", one(3)}, {"b", one(4)}, {"c", one(5)}}),
            "me: the saved state has c, which is not expected here");
  EXPECT_EQ(own.at("a").values<float>(), std::vector<float>{1});
  copy_into("me", own, {{"a", one(3)}, {"b", one(4)}});
  EXPECT_EQ(own.at("a").values<float>(), std::vector<float>{3});
  EXPECT_EQ(own.at("b").values<float>(), std::vector<float>{4});
}

}  // namespace
}  // namespace foldgrad::testing
