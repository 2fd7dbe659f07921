// Times the rungs of docs/cpu_ladder.md on a matrix product of the IWSLT model, [2048, 512] by [512, 512]. Prints, for
// each rung, the percentage of the peak of fused multiply-adds that it reaches on the same number of threads: the
// median and the best of the rounds. In each round, the peak is measured before each rung.
//
//   cpu_ladder_bench [--rounds=N]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/machine.h"
#include "bench/model_benches.h"
#include "book/ladder/cpu/cpu_ladder.h"
#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/gemm/backends.h"

namespace foldgrad::bench {
namespace {

using Product = ladder::Product<float>;

void engine_cpu(const Product& g) {
  fma_gemm_cpu(DType::f32, resolved({.m = g.m, .n = g.n, .k = g.k}), {.c = g.c, .a = g.a, .b = g.b});
}

struct Rung {
  const char* name;
  void (*multiply)(const Product&);
  int threads;
  std::vector<double> milliseconds = {}, shares = {};
};

int run(int argc, char** argv) try {
  require_cpu_support();
  int rounds = 9;
  CLI::App app("Times the rungs of the CPU ladder");
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const int all = threads();
  const Tensor a = random_tensor({2048, 512}), b = random_tensor({512, 512}),
               c = Tensor::empty({2048, 512}, DType::f32);
  const Product product{c.data<float>(), a.data<float>(), b.data<float>(), 2048, 512, 512};
  std::vector<Rung> rungs = {{"1 naive", ladder::naive_cpu, 1},         {"2 vectors", ladder::vectors_cpu, 1},
                             {"3 registers", ladder::registers_cpu, 1}, {"4 packed", ladder::packed_cpu, 1},
                             {"5 the engine's", engine_cpu, 1},         {"5 the engine's", engine_cpu, all}};
  for (int round = -1; round < rounds; ++round)  // the warm-up round -1 does not count
    for (Rung& rung : rungs) {
      set_threads(rung.threads);
      const double peak = fma_peak();
      const double took = device_seconds(
          Device::cpu, 1, [] {}, [&] { rung.multiply(product); })[0];
      if (round < 0) continue;
      rung.milliseconds.push_back(1e3 * took);
      rung.shares.push_back(100 * 2.0 * 2048 * 512 * 512 / took / peak);
    }
  fmt::print("{}, build for {}, {} rounds\n\n| rung | threads | ms | % of the peak (best) |\n|---|---|---|---|\n",
             cpu_model(), cpu_level(), rounds);
  for (const Rung& rung : rungs)
    fmt::print("| {} | {} | {:.2f} | {:.1f} ({:.1f}) |\n", rung.name, rung.threads, median(rung.milliseconds),
               median(rung.shares), *std::max_element(rung.shares.begin(), rung.shares.end()));
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "cpu_ladder_bench: {}\n", e.what());
  return 1;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) { return foldgrad::bench::run(argc, argv); }
