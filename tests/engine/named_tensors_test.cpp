#include "engine/named_tensors.h"

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

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
            "me: the saved state has c, for which there is no place here");
  EXPECT_EQ(own.at("a").values<float>(), std::vector<float>{1});
  copy_into("me", own, {{"a", one(3)}, {"b", one(4)}});
  EXPECT_EQ(own.at("a").values<float>(), std::vector<float>{3});
  EXPECT_EQ(own.at("b").values<float>(), std::vector<float>{4});
}

}  // namespace
}  // namespace foldgrad::testing
