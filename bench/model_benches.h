// Helpers for benchmarks of models: inputs, folded models, counters, and timing on the CPU.
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

// A pseudo-random sequence of numbers, the same in every run.
class Draws {
 public:
  std::uint32_t operator()() { return state_ = state_ * 1664525u + 1013904223u; }

  // Returns a tensor of i64 numbers in [least, end).
  Tensor ids(Shape shape, std::int64_t least, std::int64_t end) {
    const Tensor drawn = Tensor::empty(std::move(shape), DType::i64);
    for (std::int64_t i = 0; i < drawn.size(); ++i)
      drawn.data<std::int64_t>()[i] = least + (*this)() % std::uint32_t(end - least);
    return drawn;
  }

 private:
  std::uint32_t state_ = 1;
};

// Returns a tensor of numbers between -0.5 and 0.5, the same in every run.
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

// Returns make(normalizer) or, for "un_folded", the folded model of "un".
template <class Make>
std::unique_ptr<Model> model_with(const std::string& normalizer, const Make& make) {
  if (normalizer != "un_folded") return make(normalizer);
  return fold(*make("un"), {.tied = FoldOptions::Tied::untie}).model;
}

// Returns a counter of the work per iteration, which is reported per second.
inline benchmark::Counter rate(double per_iteration) {
  return benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate);
}

// The minimum work in an f32 training step: the floating-point operations of its matrix products, and the elements that
// attention and the other operations read and write if no cache keeps data from one operation to the next.
struct StepWork {
  double flops = 0, elements = 0;

  // Adds a layer. `map` is the number of elements of the hidden states, `inner` the number inside the feed-forward
  // block.
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
    constexpr double kAdam = 8;  // reads the gradient twice, once for its norm; reads and writes value and moments
    elements += kNorm * map + kCrossEntropy * logits + kAdam * double(parameters);
  }

  // Returns the seconds that this work takes if products run at the peak rate of fused multiply-adds, and elements are
  // read and written as fast as by a copy.
  double floor() const { return flops / cpu_limits().fma + elements * sizeof(float) / cpu_limits().copy; }
};

// Registers a benchmark that runs call(state, arguments...) and measures wall-clock time and the CPU time of all
// threads.
template <class Call, class... Arguments>
void add(const std::string& name, const Call& call, const Arguments&... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), call, arguments...)
      ->UseRealTime()
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace foldgrad::bench
