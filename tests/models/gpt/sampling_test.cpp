// Tests how a decoder-only Transformer samples tokens and generates texts.
#include "models/gpt/sampling.h"

#include <set>

#include "engine/philox.h"
#include "tests/harness/properties.h"
#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {
namespace {

Tensor row(const std::vector<double>& logits) { return Tensor::of({1, std::int64_t(logits.size())}, logits); }

TEST(Sampling, AtTemperatureZeroTheLargestLogitIsTakenAndOfEqualOnesTheFirst) {
  const Tensor logits = Tensor::of<double>({2, 4}, {0, 3, 1, 3, 5, -1, 5, 5});
  for (const DType dtype : {DType::f32, DType::f64})
    for (std::int64_t token = 0; token < 20; ++token) {
      EXPECT_EQ(sample(logits.to(dtype), 0, token, {.temperature = 0}), 1);
      EXPECT_EQ(sample(logits.to(dtype), 1, token, {.temperature = 0}), 0);
    }
}

// In the second text (row 1), the tokens have the probabilities 1/4, 0, 1/2 and 1/4. The exponentials of this row's
// logits would overflow.
TEST(Sampling, SMP_2_TheTokenIsTheFirstWhoseCumulatedProbabilityExceedsU) {
  const Tensor logits = Tensor::of<double>({2, 4}, {9, 0, 0, 0, 1000, -1000, 1000 + std::log(2), 1000});
  for (std::int64_t token = 0; token < 100; ++token) {
    const Random random{.seed = 5, .stream = 1, .step = std::uint32_t(token)};
    const double u = (random.bits(0) + 0.5) / 4294967296.0;
    EXPECT_EQ(sample(logits, 1, token, {.temperature = 1, .seed = 5}), u < 0.25 ? 0 : u < 0.75 ? 2 : 3) << u;
  }
}

// In n draws, a token of probability p occurs n p times on average, with a standard deviation of sqrt(n p (1 - p)). One
// of 1.7 million counts differs from its mean by more than five standard deviations.
TEST(Sampling, SMP_1_TokensComeAsOftenAsTheSoftmaxSays) {
  const std::vector<double> logits{1, 0, -1, 2, 0.5};
  constexpr int kDraws = 20000;
  for (const std::int64_t top_k : {0, 3}) {
    std::vector<double> p;
    double sum = 0;
    for (const double z : logits) {
      p.push_back(top_k == 3 && z < 0.5 ? 0 : std::exp(z / 0.7));
      sum += p.back();
    }
    std::vector<int> drawn(5);
    for (std::int64_t n = 0; n < kDraws; ++n) ++drawn[sample(row(logits), 0, n, {.temperature = 0.7, .top_k = top_k})];
    for (std::size_t i = 0; i < 5; ++i) {
      const double share = p[i] / sum;
      EXPECT_NEAR(drawn[i], kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share)))
          << "top_k = " << top_k << ", token " << i;
    }
  }
}

// Returns all tokens that occur in 400 draws.
std::set<std::int64_t> drawn_of(const std::vector<double>& logits, const SamplingOptions& options) {
  std::set<std::int64_t> all;
  for (std::int64_t n = 0; n < 400; ++n) all.insert(sample(row(logits), 0, n, options));
  return all;
}

// Each of the top k tokens has a probability of at least 1/17. The probability that 400 draws miss a given one of them
// is at most (16/17)^400 = 3e-11.
TEST(Sampling, SMP_1_OfEqualLogitsThoseOfSmallerIdsAreAmongTheTopK) {
  using Ids = std::set<std::int64_t>;
  const auto drawn = [](const std::vector<double>& logits, std::int64_t top_k) {
    return drawn_of(logits, {.temperature = 2, .top_k = top_k});
  };
  const std::vector<double> few{1, 3, 2, 3, 2, 2};
  EXPECT_EQ(drawn(few, 1), (Ids{1}));
  EXPECT_EQ(drawn(few, 2), (Ids{1, 3}));
  EXPECT_EQ(drawn(few, 3), (Ids{1, 2, 3}));
  EXPECT_EQ(drawn(few, 4), (Ids{1, 2, 3, 4}));
  for (const std::int64_t all : {0, 6, 100000000}) EXPECT_EQ(drawn(few, all), (Ids{0, 1, 2, 3, 4, 5})) << all;
  std::vector<double> many;
  for (std::int64_t i = 0; i < 1000; ++i) many.push_back(double(i * 37 % 1000) / 10);  // 0, 0.1, ..., 99.9, each once
  Ids largest;
  for (std::int64_t k = 1; k <= 12; ++k) {
    largest.insert((1000 - k) * 973 % 1000);  // 973 is the inverse of 37 modulo 1000: 37 * 973 = 36001
    EXPECT_EQ(drawn(many, k), largest) << k;
  }
}

// At temperature 1 the probabilities are 1/8, 1/2, 1/8 and 1/4. At temperature 2 they are in the ratio
// 1 : 2 : 1 : sqrt(2), and the largest is 0.37. With top_k = 2 at temperature 1, the larger of the two remaining tokens
// has the probability 2/3.
TEST(Sampling, SMP_3_NucleusWorkedByHand) {
  using Ids = std::set<std::int64_t>;
  const std::vector<double> logits{std::log(1), std::log(4), std::log(1), std::log(2)};
  const auto nucleus = [&](double top_p, std::int64_t top_k, double temperature) {
    return drawn_of(logits, {.temperature = temperature, .top_k = top_k, .top_p = top_p});
  };
  for (const double top_p : {0.0, 0.1, 0.49}) EXPECT_EQ(nucleus(top_p, 0, 1), (Ids{1})) << top_p;
  for (const double top_p : {0.51, 0.74}) EXPECT_EQ(nucleus(top_p, 0, 1), (Ids{1, 3})) << top_p;
  for (const double top_p : {0.76, 0.87}) EXPECT_EQ(nucleus(top_p, 0, 1), (Ids{0, 1, 3})) << top_p;
  for (const double top_p : {0.88, 1.0}) EXPECT_EQ(nucleus(top_p, 0, 1), (Ids{0, 1, 2, 3})) << top_p;
  EXPECT_EQ(nucleus(0.36, 0, 2), (Ids{1}));
  EXPECT_EQ(nucleus(0.38, 0, 2), (Ids{1, 3}));
  EXPECT_EQ(nucleus(0.66, 2, 1), (Ids{1}));
  EXPECT_EQ(nucleus(0.67, 2, 1), (Ids{1, 3}));
  EXPECT_EQ(nucleus(0.01, 0, 0), (Ids{1}));  // temperature 0 selects the largest logit
  const std::vector<double> equal(4, 0.5);   // sums of quarters are exact; the sum must reach top_p, not exceed it
  EXPECT_EQ(drawn_of(equal, {.temperature = 1, .top_p = 0.25}), (Ids{0}));
  EXPECT_EQ(drawn_of(equal, {.temperature = 1, .top_p = 0.5}), (Ids{0, 1}));
  EXPECT_EQ(drawn_of(equal, {.temperature = 1, .top_p = 0.51}), (Ids{0, 1, 2}));
}

// The expected token is computed from the definitions, in long double: a token is in the nucleus if the probabilities
// of the tokens before it sum to less than top_p. We skip draws within 1e-9 of a limit, where rounding could change the
// result.
RC_GTEST_PROP(Sampling, SMP_2_SMP_3_EveryDrawIsThatOfTheNucleus, ()) {
  const auto levels = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-12, 13)));
  const double top_p = *rc::gen::inRange(0, 100) / 100.0, temperature = *rc::gen::inRange(1, 30) / 10.0;
  const std::int64_t V = std::int64_t(levels.size()), top_k = *rc::gen::inRange<std::int64_t>(0, V + 2);
  const auto before = [&](std::int64_t a, std::int64_t b) {
    return levels[a] > levels[b] || (levels[a] == levels[b] && a < b);
  };
  const auto weight = [&](std::int64_t i) { return std::exp((long double)(levels[i]) / 2 / temperature); };
  const auto ahead = [&](std::int64_t i, auto value) {
    decltype(value(i)) sum = 0;
    for (std::int64_t j = 0; j < V; ++j)
      if (before(j, i)) sum += value(j);
    return sum;
  };
  const auto of_top_k = [&](std::int64_t i) { return top_k == 0 || ahead(i, [](auto) { return 1; }) < top_k; };
  long double all = 0, nucleus = 0;
  for (std::int64_t i = 0; i < V; ++i) all += of_top_k(i) ? weight(i) : 0;
  std::vector<double> logits;
  std::vector<bool> in;
  for (std::int64_t i = 0; i < V; ++i) {
    logits.push_back(levels[i] / 2.0);
    const long double sum = ahead(i, weight) / all;
    RC_PRE(std::abs(sum - top_p) > 1e-9L || !of_top_k(i));
    in.push_back(of_top_k(i) && (sum < top_p || sum == 0));
    nucleus += in.back() ? weight(i) : 0;
  }
  for (std::int64_t token = 0; token < 20; ++token) {
    const Random random{.seed = 1, .stream = 0, .step = std::uint32_t(token)};
    const long double u = (random.bits(0) + 0.5L) / 4294967296;
    std::int64_t want = -1;
    long double sum = 0;
    bool near = false;
    for (std::int64_t i = 0; i < V; ++i) {
      sum += in[i] ? weight(i) / nucleus : 0;
      near |= std::abs(sum - u) < 1e-9L;
      if (want < 0 && sum > u) want = i;
    }
    const std::int64_t got =
        sample(row(logits), 0, token, {.temperature = temperature, .top_k = top_k, .top_p = top_p});
    RC_ASSERT(in[got]);
    if (!near) RC_ASSERT(got == want);
  }
}

TEST(Sampling, ThereIsNoTokenWhereALogitIsNotFinite) {
  for (const double bad : {double(NAN), double(INFINITY), double(-INFINITY)})
    for (const double temperature : {0.0, 1.0})
      EXPECT_EQ(sample(row({1, bad, 2}), 0, 0, {.temperature = temperature}), -1) << bad;
}

struct Written {
  bool finite;
  std::vector<TokenIds> texts;  // the texts without their prompts
};
Written written(Gpt& model, const std::vector<TokenIds>& texts, std::int64_t count, const SamplingOptions& options) {
  GptDecoder decoder(model, model.dtype());
  Written all{true, std::vector<TokenIds>(texts.size())};
  std::size_t next = 0;
  all.finite = generate(decoder, texts, count, options, [&](std::size_t text, std::int64_t token) {
    EXPECT_EQ(text, next) << "texts must take turns";
    next = (next + 1) % texts.size();
    all.texts[text].push_back(token);
  });
  return all;
}

// The model sees only the end of a text that is longer than the context. When the context is full, generation restarts
// from the second half of the context.
TEST(Generate, EachTokenIsDrawnFromAPassOverWhatIsSeen) {
  const std::vector<TokenIds> given{{1, 2}, {0, 1, 2, 3, 4, 5, 6, 3}, {4}};
  const auto end = [](const TokenIds& text, std::size_t most) {
    return TokenIds(text.end() - std::int64_t(std::min(most, text.size())), text.end());
  };
  for (const auto& [context, half] : {std::pair<std::size_t, std::size_t>(6, 3), {5, 3}, {1, 1}, {12, 6}})
    for (const double temperature : {0.0, 2.0}) {
      GptConfig config = tiny_gpt();
      config.context = std::int64_t(context);
      const auto model = random_gpt(config);
      const SamplingOptions options{.temperature = temperature, .top_k = 5, .seed = 3};
      std::vector<TokenIds> texts = given, seen(3);
      for (std::size_t s = 0; s < 3; ++s) seen[s] = end(texts[s], context);
      for (std::int64_t n = 0; n < 20; ++n) {
        const Tensor logits = following(*model, seen);
        const bool full = longest(seen) == config.context;
        for (std::size_t s = 0; s < 3; ++s) {
          texts[s].push_back(sample(logits, std::int64_t(s), n, options));
          seen[s].push_back(texts[s].back());
          if (full) seen[s] = end(texts[s], half);
        }
      }
      const Written all = written(*model, given, 20, options);
      EXPECT_TRUE(all.finite);
      for (std::size_t s = 0; s < 3; ++s)
        EXPECT_EQ(all.texts[s], end(texts[s], 20)) << "context " << context << ", temperature " << temperature;
    }
}

TEST(Generate, EqualSeedsGiveEqualTextsAndEachTextIsDrawnByItself) {
  const auto model = random_gpt(tiny_gpt());
  const auto texts = [&](std::uint64_t seed) { return written(*model, {{1}, {1}}, 30, {.seed = seed}).texts; };
  EXPECT_EQ(texts(1), texts(1));
  EXPECT_NE(texts(1)[0], texts(2)[0]);
  EXPECT_NE(texts(1)[0], texts(1)[1]);
}

// The embedding of position 3 is NaN. The third new token would be drawn from the logits of this position, so each text
// gets only two new tokens.
TEST(Generate, StopsWhereLogitsAreNotFinite) {
  const auto model = random_gpt(tiny_gpt());
  model->values().at("wpe.weight").slice(3, 4).copy_from(Tensor::full({1, 8}, std::nan(""), DType::f64));
  const Written all = written(*model, {{1, 2}, {3, 4}}, 20, {});
  EXPECT_FALSE(all.finite);
  for (const TokenIds& text : all.texts) EXPECT_EQ(text.size(), 2u);
}

TEST(Generate, RefusesWhatCannotBe) {
  const auto model = random_gpt(tiny_gpt());
  const auto error = [&](const SamplingOptions& options) {
    return message_of([&] { written(*model, {{1}}, 1, options); });
  };
  const std::string rule = "generation: temperature must be at least 0 and finite, got ";
  EXPECT_EQ(error({.temperature = -1}), rule + "-1");
  EXPECT_EQ(error({.temperature = INFINITY}), rule + "inf");
  EXPECT_EQ(error({.temperature = std::nan("")}), rule + "nan");
  EXPECT_EQ(error({.top_k = -1}), "generation: top_k must be at least 0, got -1");
  EXPECT_EQ(error({.top_p = -0.5}), "generation: top_p must be between 0 and 1, got -0.5");
  EXPECT_EQ(error({.top_p = std::nan("")}), "generation: top_p must be between 0 and 1, got nan");
  EXPECT_EQ(written(*model, {{1}}, 0, {}).texts[0], TokenIds());
}

}  // namespace
}  // namespace foldgrad::testing
