#include "models/gpt/sampling.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

std::int64_t sample(const Tensor& logits, std::int64_t text, std::int64_t token, const SamplingOptions& options) {
  const std::int64_t V = logits.shape()[1];
  const std::vector<double> x = logits.slice(text, text + 1).to(DType::f64).values<double>();
  if (!std::ranges::all_of(x, [](double value) { return std::isfinite(value); })) return -1;
  const auto largest = std::ranges::max_element(x);
  if (options.temperature == 0) return largest - x.begin();
  double least = -INFINITY;
  std::int64_t of_equal = V;  // how many of those that equal `least` are kept
  if (options.top_k > 0 && options.top_k < V) {
    std::vector<double> sorted = x;
    std::nth_element(sorted.begin(), sorted.begin() + options.top_k - 1, sorted.end(), std::greater());
    least = sorted[std::size_t(options.top_k - 1)];
    of_equal = options.top_k - std::ranges::count_if(x, [&](double value) { return value > least; });
  }
  std::vector<double> cumulated;
  double sum = 0;
  for (const double value : x) {  // [SMP-1]
    const bool kept = value > least || (value == least && of_equal-- > 0);
    cumulated.push_back(sum += kept ? std::exp((value - *largest) / options.temperature) : 0);
  }
  const Random random{.seed = options.seed, .stream = std::uint32_t(text), .step = std::uint32_t(token)};
  const double u = (random.bits(0) + 0.5) / 4294967296.0;  // [SMP-2]
  return std::ranges::upper_bound(cumulated, u * sum) - cumulated.begin();
}

bool generate(GptDecoder& decoder, std::vector<TokenIds> texts, std::int64_t count, const SamplingOptions& options,
              const std::function<void(std::size_t text, std::int64_t token)>& take) {
  FOLDGRAD_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
                 "generation: temperature must be at least 0 and finite, got {}", options.temperature);
  FOLDGRAD_CHECK(options.top_k >= 0, "generation: top_k must be at least 0, got {}", options.top_k);
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
