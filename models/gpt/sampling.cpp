#include "models/gpt/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/check.h"

namespace foldgrad {
namespace {

// Returns the last `most` tokens of each text.
std::vector<TokenIds> ends_of(const std::vector<TokenIds>& texts, std::int64_t most) {
  std::vector<TokenIds> ends;
  for (const TokenIds& text : texts)
    ends.emplace_back(text.end() - std::min(most, std::int64_t(text.size())), text.end());
  return ends;
}

// Returns the ids of the tokens to draw from, in ascending order. `weights` are proportional to the probabilities.
std::vector<std::int64_t> candidates(const std::vector<double>& logits, const std::vector<double>& weights,
                                     const SamplingOptions& options) {
  std::vector<std::int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto V = std::int64_t(ids.size()), k = options.top_k > 0 ? std::min(options.top_k, V) : V;
  if (k == V && options.top_p >= 1) return ids;
  const auto likelier = [&](std::int64_t a, std::int64_t b) {
    return logits[std::size_t(a)] > logits[std::size_t(b)] ||
           (logits[std::size_t(a)] == logits[std::size_t(b)] && a < b);
  };
  std::partial_sort(ids.begin(), ids.begin() + k, ids.end(), likelier);
  ids.resize(std::size_t(k));
  if (options.top_p < 1) {
    const auto plus = [&](double sum, std::int64_t id) { return sum + weights[std::size_t(id)]; };
    const double most = options.top_p * std::accumulate(ids.begin(), ids.end(), 0.0, plus);
    double before = weights[std::size_t(ids[0])];
    std::size_t n = 1;
    for (; n < ids.size() && before < most; ++n) before = plus(before, ids[n]);  // [SMP-3]
    ids.resize(n);
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

std::int64_t sample(const Tensor& logits, std::int64_t text, std::int64_t token, const SamplingOptions& options) {
  const std::vector<double> x = logits.slice(text, text + 1).to(DType::f64).values<double>();
  if (!std::ranges::all_of(x, [](double value) { return std::isfinite(value); })) return -1;
  const auto largest = std::ranges::max_element(x);
  if (options.temperature == 0) return largest - x.begin();
  std::vector<double> weights, cumulated;
  for (const double value : x) weights.push_back(std::exp((value - *largest) / options.temperature));
  const std::vector<std::int64_t> ids = candidates(x, weights, options);
  double sum = 0;
  for (const std::int64_t id : ids) cumulated.push_back(sum += weights[std::size_t(id)]);  // [SMP-1]
  const Random random{.seed = options.seed, .stream = std::uint32_t(text), .step = std::uint32_t(token)};
  const double u = (random.bits(0) + 0.5) / 4294967296.0;  // [SMP-2]
  return ids[std::size_t(std::ranges::upper_bound(cumulated, u * sum) - cumulated.begin())];
}

bool generate(GptDecoder& decoder, std::vector<TokenIds> texts, std::int64_t count, const SamplingOptions& options,
              const std::function<void(std::size_t text, std::int64_t token)>& take) {
  FOLDGRAD_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
                 "generation: temperature must be at least 0 and finite, got {}", options.temperature);
  FOLDGRAD_CHECK(options.top_k >= 0, "generation: top_k must be at least 0, got {}", options.top_k);
  FOLDGRAD_CHECK(options.top_p >= 0 && options.top_p <= 1, "generation: top_p must be between 0 and 1, got {}",
                 options.top_p);
  const std::int64_t context = decoder.config().context;
  Tensor logits = decoder.begin(ends_of(texts, context)).to(Device::cpu);
  for (std::int64_t n = 0; n < count; ++n) {
    TokenIds drawn;
    for (std::size_t t = 0; t < texts.size(); ++t) {
      const std::int64_t token = sample(logits, std::int64_t(t), n, options);
      if (token < 0) return false;
      take(t, token);
      texts[t].push_back(token);
      drawn.push_back(token);
    }
    if (n + 1 == count) break;
    logits =
        (decoder.room() > 0 ? decoder.step(drawn) : decoder.begin(ends_of(texts, (context + 1) / 2))).to(Device::cpu);
  }
  return true;
}

}  // namespace foldgrad
