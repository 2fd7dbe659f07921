// The common part of benchmarks of models: inputs, folded models, counters, and timing on the CPU.
#pragma once
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/machine.h"
#include "models/fold/model.h"

namespace foldgrad::bench {

// A sequence of numbers, the same in every run.
class Draws {
 public:
  std::uint32_t operator()() { return state_ = state_ * 1664525u + 1013904223u; }

  // Returns i64 in [least, end).
  Tensor ids(Shape shape, std::int64_t least, std::int64_t end) {
    const Tensor drawn = Tensor::empty(std::move(shape), DType::i64);
    for (std::int64_t i = 0; i < drawn.size(); ++i)
      drawn.data<std::int64_t>()[i] = least + (*this)() % std::uint32_t(end - least);
    return drawn;
  }

 private:
  std::uint32_t state_ = 1;
};

// Returns numbers between -0.5 and 0.5, the same in every run.
inline Tensor random_tensor(Shape shape, DType dtype = DType::f32) {
  Draws draw;
  std::vector<float> values(std::size_t(shape.elements()));
  for (float& x : values) x = float(draw() >> 8) / float(1 << 24) - 0.5f;
  return Tensor::of(std::move(shape), values).to(dtype);
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Returns make(normalizer), or for "un_folded" the folded model of "un".
template <class Make>
std::unique_ptr<Model> model_with(const std::string& normalizer, const Make& make) {
  if (normalizer != "un_folded") return make(normalizer);
  return fold(*make("un"), {.tied = FoldOptions::Tied::untie}).model;
}

// Returns a counter, reported per second, of the work of an iteration.
inline benchmark::Counter rate(double per_iteration) {
  return benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate);
}

// The least that a training step in f32 must do: the operations of its products, and the elements that its other
// operations and attention read and write if nothing stays in a cache from one operation to the next.
struct StepWork {
  double flops = 0, elements = 0;

  // Adds a layer. map: elements of the hidden states. inner: elements of those inside the feed-forward part.
  void add_layer(double attentions, double map, double inner) {
    constexpr double kNorm = 5;        // x, y; backward dy, x, dx
    constexpr double kResidual = 5;    // x, residual, y; backward dy, dx
    constexpr double kAttention = 12;  // q, k, v, y; backward these, dy, dq, dk, dv
    constexpr double kActivation = 5;  // x, y; backward dy, x, dx
    elements += map * (attentions * (kNorm + kAttention + kResidual) + kNorm + kResidual) + kActivation * inner;
  }
  // Adds the last normalizer, the cross entropy and the optimizer.
  void add_ends(double map, double logits, std::int64_t parameters) {
    constexpr double kNorm = 5;
    constexpr double kCrossEntropy = 3;  // x; backward x, dx
    constexpr double kAdam = 8;  // the gradient twice, once for its norm; value and both moments, read and written
    elements += kNorm * map + kCrossEntropy * logits + kAdam * double(parameters);
  }

  // Returns the seconds of the products at the peak of fused multiply-adds and of the elements at the rate of a copy.
  double floor() const { return flops / cpu_limits().fma + elements * sizeof(float) / cpu_limits().copy; }
};

// Adds a benchmark, `call` of the state and of `arguments`, which measures the clock's time and that of all threads.
template <class Call, class... Arguments>
void add(const std::string& name, const Call& call, const Arguments&... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), call, arguments...)
      ->UseRealTime()
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace foldgrad::bench
