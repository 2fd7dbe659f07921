#include "bench/machine.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/memory.h"

namespace foldgrad::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The best of many runs: a limit is what the machine can do when nobody disturbs it.
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

// Calls part(begin, end) for every thread's share of n.
template <class Part>
void share_out(std::size_t n, const Part& part) {
#pragma omp parallel
  {
    const std::size_t threads = omp_get_num_threads(), t = omp_get_thread_num();
    const std::size_t step = (n / threads + 1023) / 1024 * 1024;
    if (t * step < n) part(t * step, std::min(n, (t + 1) * step));
  }
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

double copy_bandwidth(Device device, std::size_t bytes) {
  const auto source = memory::allocate(device, bytes), target = memory::allocate(device, bytes);
  memory::zero(device, source.get(), bytes);
  memory::zero(device, target.get(), bytes);
  if (device == Device::cuda) {
    cuda_synchronize();
    return 2.0 * bytes / fastest_seconds([&] {
             memory::copy(device, target.get(), device, source.get(), bytes);
             cuda_synchronize();
           });
  }
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
  using Vector [[gnu::vector_size(64)]] = float;  // the compiler splits it where registers are smaller
  constexpr int kChains = 12, kRounds = 200'000;  // enough independent chains to hide the latency of an FMA
  float sink = 0;
  const double seconds = fastest_seconds([&] {
#pragma omp parallel reduction(+ : sink)
    {
      Vector chains[kChains] = {}, factor = chains[0] + 0.999f, term = chains[0] + 1e-3f;
      for (int r = 0; r < kRounds; ++r) {
        for (Vector& c : chains)
          for (int lane = 0; lane < 16; ++lane) c[lane] = __builtin_fmaf(c[lane], factor[lane], term[lane]);
      }
      for (Vector& c : chains) sink += c[0];
    }
  });
  volatile float keep = sink;
  (void)keep;
  return 2.0 * 16 * kChains * kRounds * omp_get_max_threads() / seconds;
}

int run_program(const char* program, int argc, char** argv, int (*register_all)(int& argc, char** argv)) try {
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
