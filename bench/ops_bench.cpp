// Times every operation, forward and backward, and sets it beside what this machine can do: memory-bound operations
// beside the bandwidth of a copy that moves as many bytes, products beside the peak of fused multiply-adds, both
// measured in the same run. Limits are the fastest of many runs, so their shares are those of the fastest iteration.
//
//   ops_bench [--device=cuda] [Google Benchmark's flags]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "bench/machine.h"
#include "bench/op_bench.h"
#include "engine/cpu/support.h"
#include "engine/gemm/gemm.h"

namespace foldgrad::bench {
namespace {

// Bytes per second of a copy that moves `bytes`, half of them read and half written. Measured once per size.
double copy_limit(Device device, double bytes) {
  static std::map<std::size_t, double> known;
  const std::size_t size = std::max(std::size_t(bytes / 2), std::size_t(1) << 16) / 4096 * 4096;
  const auto [limit, added] = known.try_emplace(size, 0);
  if (added) limit->second = copy_bandwidth(device, size);
  return limit->second;
}

double seconds_of(Device device, const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  if (device == Device::cuda) cuda_synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report(benchmark::State& state, double seconds, double bytes, double flops, double copy, double fma) {
  if (bytes > 0) {
    state.counters["GB/s"] = bytes / seconds / 1e9;
    state.counters["copy_GB/s"] = copy / 1e9;
    state.counters["MB"] = bytes / 1e6;
    state.counters["of_copy_%"] = 100 * bytes / seconds / copy;
  }
  if (flops > 0) {
    state.counters["GFLOP/s"] = flops / seconds / 1e9;
    if (fma > 0) state.counters["of_peak_%"] = 100 * flops / seconds / fma;
  }
}

void run(benchmark::State& state, const OpBench& op, Device device, bool backward, double fma) {
  const double bytes = backward ? op.work.backward_bytes : op.work.forward_bytes;
  const double copy = bytes > 0 ? copy_limit(device, bytes) : 0;
  double fastest = 1e9;
  const auto record = [&](double seconds) {
    fastest = std::min(fastest, seconds);
    state.SetIterationTime(seconds);
  };
  Tape tape;
  for (auto _ : state) {
    std::vector<Var> vars;
    for (const Tensor& t : op.operands) vars.push_back(is_floating(t.dtype()) ? tape.variable(t) : tape.constant(t));
    Var y;
    const double forward = seconds_of(device, [&] { y = op.f(vars); });
    if (!backward) {
      record(forward);
    } else {
      Tensor dy = Tensor::full(y.shape(), 0.5, y.dtype(), device);
      record(seconds_of(device, [&] { tape.backward(y, std::move(dy)); }));
    }
    tape.clear();
  }
  report(state, fastest, bytes, backward ? op.work.backward_flops : op.work.forward_flops, copy, fma);
}

int register_all(int& argc, char** argv) {
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
  const double fma = device == Device::cpu ? fma_peak() : 0;
  benchmark::AddCustomContext("machine", device == Device::cpu ? cpu_model() : cuda_description());
  benchmark::AddCustomContext("copy_GB/s", fmt::format("{:.1f}", copy_limit(device, 2 * (16 << 20)) / 1e9));
  if (fma > 0) benchmark::AddCustomContext("fma_GFLOP/s", fmt::format("{:.1f}", fma / 1e9));
  benchmark::AddCustomContext("gemm", gemm_backend(device, DType::f32));

  const std::vector<OpBench> ops = op_benches(device);
  for (const OpBench& op : ops)
    for (bool backward : {false, true}) {
      if (backward && op.work.backward_bytes == 0 && op.work.backward_flops == 0) continue;
      benchmark::RegisterBenchmark((op.name + (backward ? "/backward" : "/forward")).c_str(), run, op, device, backward,
                                   fma)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  return foldgrad::bench::run_program("ops_bench", argc, argv, foldgrad::bench::register_all);
}
