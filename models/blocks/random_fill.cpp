#include "models/blocks/random_fill.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "engine/cpu/threads.h"
#include "engine/philox.h"
#include "models/blocks/layers.h"

namespace foldgrad {
namespace {

double unit(std::uint32_t word) { return (word + 0.5) / 4294967296.0; }

// Sets each element to value(unit(a), unit(b)), where a and b are the element's two random words.
template <class Value>
void fill(Parameter& parameter, std::uint64_t seed, const Value& value) {
  const Random random{seed, random_stream(parameter.name), std::numeric_limits<std::uint32_t>::max()};
  const Tensor host = Tensor::empty(parameter.value.shape(), parameter.value.dtype());
  const std::int64_t size = host.size();
  dispatch_floating("random_fill", host.dtype(), [&]<class T>(Type<T>) {
    T* data = host.data<T>();
    // Each element costs as much as 8 additions.
    parallel_ranges(size, /*elements=*/8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const PhiloxWords words = random.block(std::uint64_t(i / 2));
        data[i] = T(value(unit(words.word[i % 2 * 2]), unit(words.word[i % 2 * 2 + 1])));
      }
    });
  });
  parameter.value.copy_from(host);
}

}  // namespace

void fill_uniform(Parameter& parameter, double bound, std::uint64_t seed) {
  fill(parameter, seed, [bound](double u, double) { return bound * (2 * u - 1); });
}

void fill_normal(Parameter& parameter, double deviation, std::uint64_t seed) {
  fill(parameter, seed, [deviation](double u, double v) {
    return deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  });
}

Parameter uniform_parameter(const std::string& name, const Shape& shape, double bound, std::uint64_t seed, DType dtype,
                            Device device) {
  Parameter parameter{name, Tensor::empty(shape, dtype, device)};
  fill_uniform(parameter, bound, seed);
  return parameter;
}

Parameter normal_parameter(const std::string& name, const Shape& shape, double deviation, std::uint64_t seed,
                           DType dtype, Device device) {
  Parameter parameter{name, Tensor::empty(shape, dtype, device)};
  fill_normal(parameter, deviation, seed);
  return parameter;
}

}  // namespace foldgrad
