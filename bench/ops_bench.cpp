// Times every operation, forward and backward, and sets it beside what this machine can do: memory-bound operations
// beside the bandwidth of a copy, products beside the peak of fused multiply-adds, both measured in the same run.
//
//   ops_bench [--device=cuda] [Google Benchmark's flags]
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>

#include "bench/machine.h"
#include "bench/op_bench.h"
#include "engine/cpu_support.h"
#include "engine/gemm.h"

namespace foldgrad::bench {
namespace {

struct Limits {
  double copy, fma;  // bytes and operations per second
};

double seconds_of(Device device, const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  if (device == Device::cuda) cuda_synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report(benchmark::State& state, double bytes, double flops, const Limits& limits) {
  const auto rate = [](double per_iteration) {
    return benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (bytes > 0) {
    state.counters["GB/s"] = rate(bytes / 1e9);
    state.counters["of_copy_%"] = rate(100 * bytes / limits.copy);
  }
  if (flops > 0) {
    state.counters["GFLOP/s"] = rate(flops / 1e9);
    if (limits.fma > 0) state.counters["of_peak_%"] = rate(100 * flops / limits.fma);
  }
}

void run(benchmark::State& state, const OpBench& op, Device device, bool backward, const Limits& limits) {
  Tape tape;
  Tensor dy;
  for (auto _ : state) {
    std::vector<Var> vars;
    for (const Tensor& t : op.operands) vars.push_back(is_floating(t.dtype()) ? tape.variable(t) : tape.constant(t));
    Var y;
    const double forward = seconds_of(device, [&] { y = op.f(vars); });
    if (!backward) {
      state.SetIterationTime(forward);
    } else {
      if (!dy.defined()) dy = Tensor::full(y.shape(), 0.5, y.dtype(), device);
      state.SetIterationTime(seconds_of(device, [&] { tape.backward(y, dy); }));
    }
    tape.clear();
  }
  report(state, backward ? op.work.backward_bytes : op.work.forward_bytes,
         backward ? op.work.backward_flops : op.work.forward_flops, limits);
}

int run_all(int argc, char** argv) {
  require_cpu_support();
  Device device = Device::cpu;
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--device=cuda") == 0) {
      device = Device::cuda;
      std::copy(argv + i + 1, argv + argc, argv + i);
      --argc;
    }
  if (device == Device::cuda && (!cuda_available() || cuda_is_emulated())) {
    fmt::print(stderr, "ops_bench: --device=cuda needs a GPU: {}\n", cuda_description());
    return 6;
  }
  const Limits limits{copy_bandwidth(device, std::size_t(16) << 20), device == Device::cpu ? fma_peak() : 0};
  benchmark::AddCustomContext("machine", device == Device::cpu ? cpu_model() : cuda_description());
  benchmark::AddCustomContext("copy_GB/s", fmt::format("{:.1f}", limits.copy / 1e9));
  if (limits.fma > 0) benchmark::AddCustomContext("fma_GFLOP/s", fmt::format("{:.1f}", limits.fma / 1e9));
  benchmark::AddCustomContext("gemm", gemm_backend(device, DType::f32));

  const std::vector<OpBench> ops = op_benches(device);
  for (const OpBench& op : ops)
    for (bool backward : {false, true})
      benchmark::RegisterBenchmark((op.name + (backward ? "/backward" : "/forward")).c_str(), run, op, device, backward,
                                   limits)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  try {
    return foldgrad::bench::run_all(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "ops_bench: {}\n", e.what());
    return 1;
  }
}
