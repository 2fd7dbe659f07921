// Totals that are added up together, against sums in double on the host.
#include "engine/cuda/late_totals.h"

#include <random>

#include "tests/harness/op_spec.h"

#ifdef FOLDGRAD_HAVE_CUDA
namespace foldgrad::testing {
namespace {

struct Case {
  int parts, sums, sum;  // of the sums in the parts, this one
  std::int64_t columns;
  GradMode mode;
  bool rounded;  // to bf16
};

// Whole numbers, whose sums are exact in float in any order.
Tensor whole_numbers(const Shape& shape, unsigned seed, int most) {
  std::mt19937 random(seed);
  std::vector<float> v(shape.elements());
  for (float& x : v) x = float(int(random() % (2 * most + 1)) - most);
  return Tensor::of(shape, v, Device::cuda);
}

struct Waiting {
  Case c;
  Tensor partials, before, out;

  Waiting(const Case& c, unsigned seed)
      : c(c),
        partials(whole_numbers({c.parts, c.sums, c.columns}, seed, 9)),
        before(whole_numbers({c.columns}, seed + 1, 3).to(c.rounded ? DType::bf16 : DType::f32)),
        out(before.clone()) {}

  LateTotal total() const {
    ParameterGradOut<bf16> place;
    if (c.rounded)
      place.data = out.data<bf16>();
    else
      place.exact = out.data<float>();
    place.mode = c.mode;
    return {place, partials.data<float>() + c.sum * c.columns, c.columns, c.parts, c.sums};
  }
  Tensor want() const {
    const std::vector<float> numbers = partials.values<float>();
    std::vector<double> totals = before.to(DType::f64).values<double>();
    for (std::int64_t i = 0; i < c.columns; ++i) {
      if (c.mode == GradMode::set) totals[i] = 0;
      for (int part = 0; part < c.parts; ++part) totals[i] += numbers[(part * c.sums + c.sum) * c.columns + i];
    }
    return Tensor::of({c.columns}, totals).to(out.dtype());
  }
};

// Around the seams of a block's 32 columns and its 8 threads for each, with more totals than one launch takes.
std::vector<Waiting> many() {
  std::vector<Waiting> all;
  for (int parts : {1, 7, 8, 9, 128})
    for (std::int64_t columns : {1, 31, 32, 33, 200})
      for (GradMode mode : {GradMode::set, GradMode::add})
        for (bool rounded : {false, true}) {
          const int sums = 1 + int(all.size()) % 3;
          all.emplace_back(Case{parts, sums, int(all.size() / 3) % sums, columns, mode, rounded}, unsigned(all.size()));
        }
  return all;
}

TEST(LateTotals, AreTheSumsOfAllParts) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const std::vector<Waiting> all = many();
  ASSERT_GT(all.size(), LateTotalsTable::kMost);
  const auto late = make_late_totals();
  for (const Waiting& w : all) late->add(w.total(), nullptr);
  late->finish();
  for (const Waiting& w : all)
    EXPECT_TRUE(identical(w.out.to(Device::cpu), w.want()))
        << w.c.parts << " parts, sum " << w.c.sum << " of " << w.c.sums << ", " << w.c.columns << " columns, "
        << name(w.out.dtype());
}

TEST(LateTotals, WaitUntilSomebodyWantsTheGradient) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (bool rounded : {false, true}) {
    const Waiting w({3, 1, 0, 5, GradMode::set, rounded}, 1), other({3, 1, 0, 5, GradMode::set, rounded}, 2);
    const auto late = make_late_totals();
    late->add(w.total(), nullptr);
    late->finish_if_waiting(other.out.raw());
    EXPECT_TRUE(identical(w.out.to(Device::cpu), w.before.to(Device::cpu)));
    late->finish_if_waiting(w.out.raw());
    EXPECT_TRUE(identical(w.out.to(Device::cpu), w.want()));
  }
}

TEST(LateTotals, KeepTheirPartsUntilTheyAreAddedUp) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Waiting w({3, 1, 0, 5, GradMode::set, false}, 1);
  const auto memory = std::make_shared<int>();
  const auto late = make_late_totals();
  late->add(w.total(), memory);
  EXPECT_EQ(memory.use_count(), 2);
  late->finish();
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(LateTotals, AreForgottenWhereBackwardWasCutOff) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Waiting w({3, 1, 0, 5, GradMode::set, false}, 1);
  const auto late = make_late_totals();
  late->add(w.total(), nullptr);
  late->forget();
  late->finish();
  EXPECT_TRUE(identical(w.out.to(Device::cpu), w.before.to(Device::cpu)));
}

}  // namespace
}  // namespace foldgrad::testing
#endif
