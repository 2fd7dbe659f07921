// Times every operation, forward and backward, and compares it with the machine's limits, all measured in the same run:
// memory-bound operations with the bandwidth of a copy that moves the same number of bytes, products with the peak of
// fused multiply-adds on the CPU, and with a large product of the same dtype on a GPU. A limit is the speed of the
// fastest of many runs, so percentages use our fastest iteration, too.
//
// The label of a benchmark names the fast kernels that ran. With --plain, none of them runs.
//
//   ops_bench [--device=cuda] [--plain] [Google Benchmark's flags]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "bench/machine.h"
#include "bench/op_collection.h"
#include "engine/fast.h"

namespace foldgrad::bench {
namespace {

// Returns the bytes per second of a copy that moves `bytes`, half read and half written. Measured once per size.
double copy_limit(Device device, double bytes) {
  static std::map<std::size_t, double> known;
  const std::size_t size = std::max(std::size_t(bytes / 2), std::size_t(1) << 16) / 4096 * 4096;
  const auto [limit, added] = known.try_emplace(size, 0);
  if (added) limit->second = copy_bandwidth(device, size);
  return limit->second;
}

// Returns the number of runs of each fast kernel in this program.
std::map<std::string, std::int64_t> fast_runs() {
  std::map<std::string, std::int64_t> runs;
  for (const FastKernel* k = FastKernel::first; k; k = k->next) runs[k->name] = k->runs;
  return runs;
}

// Returns the names of the fast kernels that have run since `then`.
std::string ran_since(const std::map<std::string, std::int64_t>& then) {
  std::string names;
  for (const auto& [name, runs] : fast_runs())
    if (runs > then.at(name)) names += (names.empty() ? "" : "; ") + name;
  return names;
}

void report(benchmark::State& state, double seconds, double bytes, double flops, double copy, double peak) {
  if (bytes > 0) {
    state.counters["GB/s"] = bytes / seconds / 1e9;
    state.counters["copy_GB/s"] = copy / 1e9;
    state.counters["MB"] = bytes / 1e6;
    state.counters["of_copy_%"] = 100 * bytes / seconds / copy;
  }
  if (flops > 0) {
    state.counters["GFLOP/s"] = flops / seconds / 1e9;
    state.counters["of_peak_%"] = 100 * flops / seconds / peak;
  }
}

void run(benchmark::State& state, const OpBench& op, Device device, bool backward, double peak) {
  const double bytes = backward ? op.work.backward_bytes : op.work.forward_bytes;
  const double copy = bytes > 0 ? copy_limit(device, bytes) : 0;
  if (!backward) require_written(op);
  const std::map<std::string, std::int64_t> runs = fast_runs();
  Tape tape;
  std::vector<Var> vars;
  Var y;
  Tensor dy;
  const auto begin = [&] {
    tape.clear();
    vars.clear();
    for (const Tensor& t : op.operands) vars.push_back(is_floating(t.dtype()) ? tape.variable(t) : tape.constant(t));
  };
  const auto forward = [&] { y = op.f(vars); };
  const auto begin_backward = [&] {
    begin();
    forward();
    dy = Tensor::full(y.shape(), 0.5, y.dtype(), device);
  };
  const int calls = device == Device::cuda ? 20 : 1;
  double fastest = 1e9;
  for (auto _ : state) {
    const std::vector<double> seconds =
        backward ? device_seconds(device, calls, begin_backward, [&] { tape.backward(y, std::move(dy)); })
                 : device_seconds(device, calls, begin, forward);
    fastest = std::min(fastest, *std::min_element(seconds.begin(), seconds.end()));
    state.SetIterationTime(std::accumulate(seconds.begin(), seconds.end(), 0.0) / calls);
  }
  state.SetLabel(ran_since(runs));
  report(state, fastest, bytes, backward ? op.work.backward_flops : op.work.forward_flops, copy, peak);
}

int register_all(int& argc, char** argv) {
  const Device device = device_argument(argc, argv);
  const bool gpu = device == Device::cuda;
  describe_machine(device);
  for (const auto& [name, runs] : fast_runs()) benchmark::AddCustomContext(name, "a fast kernel");
  std::map<DType, double> peak;
  for (DType dtype : {DType::f32, DType::bf16}) {
    peak[dtype] = gpu ? product_rate(device, dtype) : cpu_limits().fma;
    if (gpu)
      benchmark::AddCustomContext(fmt::format("product_{}_GFLOP/s", name(dtype)),
                                  fmt::format("{:.1f}", peak[dtype] / 1e9));
  }
  if (gpu) benchmark::AddCustomContext("copy_GB/s", fmt::format("{:.1f}", copy_limit(device, 1 << 30) / 1e9));

  for (const OpBench& op : op_benches(device))
    for (bool backward : {false, true}) {
      if (backward && op.work.backward_bytes == 0 && op.work.backward_flops == 0) continue;
      auto* b = benchmark::RegisterBenchmark((op.name + (backward ? "/backward" : "/forward")).c_str(), run, op, device,
                                             backward, peak[op.dtype]);
      b->UseManualTime()->Unit(benchmark::kMillisecond);
      if (gpu) b->Iterations(5);  // an iteration makes many calls
    }
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  return foldgrad::bench::run_program("ops_bench", argc, argv, foldgrad::bench::register_all);
}
