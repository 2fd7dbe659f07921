#include "train/tasks/classification/mix.h"

#include <algorithm>
#include <cmath>

#include "engine/check.h"
#include "engine/philox.h"
#include "train/loop/permutation.h"

namespace foldgrad {
namespace {

constexpr std::uint32_t kStream = 0x6d69786d;  // "mixm"; its step is the training step

// The random words of a step by their purpose. Each rejection takes two more words.
enum MixWord { kChoice, kRow, kColumn, kBeta };

// Returns a number in (0, 1), never 0 or 1, since its logarithm is taken.
double open_uniform(std::uint32_t bits) { return (bits + 0.5) / 4294967296.0; }

double draw_beta(double a, const Random& random) {  // [MIX-1]
  const double b = a <= 1 ? a : std::sqrt(a);
  for (std::uint64_t word = kBeta;; word += 2) {
    const double u = open_uniform(random.bits(word)), w = open_uniform(random.bits(word + 1));
    const double v = std::log(u / (1 - u)) / b;
    // This is the logarithm of the mean of 1 and e^v.
    const double log_mean = std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))) - std::log(2);
    if ((a + b) * v - 2 * a * log_mean - std::log(4) >= std::log(u * u * w)) return 1 / (1 + std::exp(-v));
  }
}

void draw_box(Mix& mix, std::int64_t height, std::int64_t width, const Random& random) {  // [MIX-3]
  const double r = std::sqrt(1 - mix.lambda);
  const auto side = [&](std::int64_t size, MixWord word, std::int64_t& begin, std::int64_t& end) {
    const std::int64_t centre = draw_below(random.bits(word), size), length = std::int64_t(double(size) * r);
    begin = std::max<std::int64_t>(centre - length / 2, 0);
    end = std::min(centre - length / 2 + length, size);
  };
  side(height, kRow, mix.top, mix.bottom);
  side(width, kColumn, mix.left, mix.right);
  mix.lambda = 1 - double((mix.bottom - mix.top) * (mix.right - mix.left)) / double(height * width);
}

}  // namespace

Mix draw_mix(const MixOptions& options, std::int64_t height, std::int64_t width, std::uint64_t seed,
             std::int64_t step) {
  for (const auto& [name, a] : {std::pair("mixup", options.mixup), std::pair("cutmix", options.cutmix)})
    FOLDGRAD_CHECK(a >= 0 && std::isfinite(a), "mix: {} must be at least 0 and finite, got {}", name, a);
  const Random random{.seed = seed, .stream = kStream, .step = std::uint32_t(step)};
  Mix mix;
  mix.cut = options.cutmix > 0 && (options.mixup == 0 || random.bits(kChoice) >> 31 == 1);
  const double a = mix.cut ? options.cutmix : options.mixup;
  if (a == 0) return mix;
  mix.lambda = draw_beta(a, random);
  if (mix.cut) draw_box(mix, height, width, random);
  return mix;
}

MixedImages mix(const Tensor& images, const Tensor& labels, const Mix& mix) {
  const std::int64_t B = images.shape()[0], H = images.shape()[1], W = images.shape()[2], C = images.shape()[3];
  MixedImages mixed{images.clone(), labels, labels.clone(), Tensor::full({B}, mix.lambda, DType::f32)};
  std::reverse(mixed.others.data<std::int64_t>(), mixed.others.data<std::int64_t>() + B);
  const float lambda = float(mix.lambda);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::uint8_t* own = images.data<std::uint8_t>() + b * H * W * C;
    const std::uint8_t* other = images.data<std::uint8_t>() + (B - 1 - b) * H * W * C;
    std::uint8_t* out = mixed.images.data<std::uint8_t>() + b * H * W * C;
    if (mix.cut) {
      for (std::int64_t h = mix.top; h < mix.bottom; ++h)
        std::copy(other + (h * W + mix.left) * C, other + (h * W + mix.right) * C, out + (h * W + mix.left) * C);
    } else if (mix.lambda < 1) {
      for (std::int64_t k = 0; k < H * W * C; ++k)  // [MIX-2]
        out[k] = std::uint8_t(lambda * own[k] + (1 - lambda) * other[k] + 0.5f);
    }
  }
  return mixed;
}

}  // namespace foldgrad
