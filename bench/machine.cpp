#include "bench/machine.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>

#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/cpu/vector_width.h"
#include "engine/fast.h"
#include "engine/gemm/gemm.h"
#include "engine/memory.h"
#include "engine/tensor.h"

namespace foldgrad::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the shortest time of many runs, since a limit is the speed of the undisturbed machine.
template <class Body>
double fastest_seconds(const Body& body) {
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    const auto start = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

double fastest_on_gpu(const std::function<void()>& body) {
  const std::vector<double> seconds = event_seconds(
      30, [] {}, body);
  return *std::min_element(seconds.begin(), seconds.end());
}

// Calls part(begin, end) on every thread, for its share of n elements.
template <class Part>
void share_out(std::size_t n, const Part& part) {
  const std::size_t step = (n / threads() + 1023) / 1024 * 1024;
  parallel(threads(), [&](std::int64_t t) {
    if (t * step < n) part(t * step, std::min(n, (t + 1) * step));
  });
}

void copy_vector_loop(float* target, const float* source, std::size_t n) {
  share_out(n, [=](std::size_t begin, std::size_t end) {
#pragma omp simd
    for (std::size_t i = begin; i < end; ++i) target[i] = source[i];
  });
}

void copy_streaming(float* target, const float* source, std::size_t n) {
  share_out(n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; i += 4) _mm_stream_ps(target + i, _mm_load_ps(source + i));
    _mm_sfence();
  });
}

}  // namespace

std::vector<double> device_seconds(Device device, int times, const std::function<void()>& before,
                                   const std::function<void()>& timed) {
  if (device == Device::cuda) return event_seconds(times, before, timed);
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    before();
    const auto start = Clock::now();
    timed();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

double copy_bandwidth(Device device, std::size_t bytes) {
  const auto source = memory::allocate(device, bytes), target = memory::allocate(device, bytes);
  memory::zero(device, source.get(), bytes);
  memory::zero(device, target.get(), bytes);
  if (device == Device::cuda)
    return 2.0 * bytes / fastest_on_gpu([&] { memory::copy(device, target.get(), device, source.get(), bytes); });
  float* to = static_cast<float*>(target.get());
  const float* from = static_cast<const float*>(source.get());
  const std::size_t n = bytes / sizeof(float) / 4 * 4;
  const double seconds = std::min(
      {fastest_seconds([&] {
         share_out(bytes, [&](std::size_t begin, std::size_t end) {
           std::memcpy(reinterpret_cast<char*>(to) + begin, reinterpret_cast<const char*>(from) + begin, end - begin);
         });
       }),
       fastest_seconds([&] { copy_vector_loop(to, from, n); }), fastest_seconds([&] { copy_streaming(to, from, n); })});
  return 2.0 * bytes / seconds;
}

double fma_peak() {
  using Vector [[gnu::vector_size(kVectorBytes)]] = float;
  // There are enough independent chains to hide the latency of an FMA, and few enough to fit into registers.
  constexpr int kLanes = kVectorBytes / sizeof(float), kChains = 12, kRounds = 200'000;
  std::atomic<float> sink = 0;
  const double seconds = fastest_seconds([&] {
    parallel(threads(), [&](std::int64_t) {
      Vector chains[kChains] = {}, factor = chains[0] + 0.999f, term = chains[0] + 1e-3f;
      // If several chains were equal, the compiler would compute only one of them.
      for (int k = 0; k < kChains; ++k)
        for (int lane = 0; lane < kLanes; ++lane) chains[k][lane] = float(kLanes * k + lane);
      for (int r = 0; r < kRounds; ++r) {
        for (Vector& c : chains)
          for (int lane = 0; lane < kLanes; ++lane) c[lane] = __builtin_fmaf(c[lane], factor[lane], term[lane]);
      }
      float sum = 0;
      for (Vector& c : chains)
        for (int lane = 0; lane < kLanes; ++lane) sum += c[lane];
      sink = sum;  // forces the compiler to compute it
    });
  });
  return 2.0 * kLanes * kChains * kRounds * threads() / seconds;
}

const Limits& cpu_limits() {
  static const Limits limits{fma_peak(), copy_bandwidth(Device::cpu, std::size_t(64) << 20)};
  return limits;
}

double product_rate(Device device, DType dtype) {
  constexpr std::int64_t n = 8192;
  std::vector<float> noise(n * n);  // zeros would take less power, and so would be multiplied faster
  std::uint32_t state = 1;
  for (float& x : noise) x = float((state = state * 1664525u + 1013904223u) >> 8) / float(1 << 24) - 0.5f;
  const Tensor a = Tensor::of({n, n}, noise).to(dtype).to(device), c = Tensor::empty({n, n}, dtype, device);
  const Gemm product{.transpose_b = true, .m = n, .n = n, .k = n};
  return 2.0 * n * n * n / fastest_on_gpu([&] { gemm(device, dtype, product, c.raw(), a.raw(), a.raw()); });
}

void describe_machine(Device device) {
  const bool cuda = device == Device::cuda;
  benchmark::AddCustomContext("machine", cuda ? cuda_description() : cpu_model());
  if (!cuda) {
    benchmark::AddCustomContext("fma_GFLOP/s", fmt::format("{:.1f}", cpu_limits().fma / 1e9));
    benchmark::AddCustomContext("copy_GB/s", fmt::format("{:.1f}", cpu_limits().copy / 1e9));
  }
  benchmark::AddCustomContext("gemm", gemm_backend(device, DType::f32));
}

bool take_argument(int& argc, char** argv, const std::string& option) {
  char** const found = std::find(argv, argv + argc, option);
  if (found == argv + argc) return false;
  std::copy(found + 1, argv + argc, found);
  --argc;
  return true;
}

Device device_argument(int& argc, char** argv) {
  if (!take_argument(argc, argv, "--device=cuda")) return Device::cpu;
  if (!cuda_available() || cuda_is_emulated())
    throw std::invalid_argument(fmt::format("--device=cuda needs a GPU: {}", cuda_description()));
  return Device::cuda;
}

int run_program(const char* program, int argc, char** argv, int (*register_all)(int& argc, char** argv)) try {
  require_cpu_support();
  FastKernel::off = take_argument(argc, argv, "--plain");
  if (const int status = register_all(argc, argv)) return status;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}: {}\n", program, e.what());
  return 1;
}

}  // namespace foldgrad::bench
