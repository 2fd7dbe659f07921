// Times the matrix products of a training step with each back end of gemm() that this build has, and prints the
// percentage of the peak of fused multiply-adds that each reaches. engine/gemm/gemm.cpp chooses back ends by the
// resulting tables, which docs/products.md shows.
//
//   products_bench [--threads=N] [--rounds=N] [--dtype=f32|bf16] [STEP ...]
//
// Every round of a shape first measures the peak and then calls each back end once, so that a noisy neighbour or a
// change of the clock affects all of them. A cell shows the median of the rounds and the best round. The last row
// weighs the products by their number in a step: it shows the time of all at the peak, divided by the sum of their
// median times.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "bench/machine.h"
#include "bench/model_benches.h"
#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/gemm/pieces.h"
#include "engine/tensor.h"

namespace foldgrad::bench {
namespace {

// The product y = x W^T of layers of the same size: x [rows, in], W [out, in].
struct Layers {
  const char *step, *name;
  int count;
  std::int64_t rows, out, in;
};

// The linear layers of the steps that transformer_bench, vision_bench and language_bench time. CCT's convolutions are
// not among them.
constexpr Layers kLayers[] = {
    {"iwslt", "projection", 72, 2048, 512, 512},    {"iwslt", "ffn, first", 12, 2048, 1024, 512},
    {"iwslt", "ffn, second", 12, 2048, 512, 1024},  {"iwslt", "logits", 1, 2048, 10152, 512},
    {"multi30k", "projection", 36, 2048, 256, 256}, {"multi30k", "ffn, first", 6, 2048, 512, 256},
    {"multi30k", "ffn, second", 6, 2048, 256, 512}, {"multi30k", "logits", 1, 2048, 6000, 256},
    {"vit_s4", "q, k, v", 12, 4160, 1152, 384},     {"vit_s4", "projection", 12, 4160, 384, 384},
    {"vit_s4", "ffn, first", 12, 4160, 1536, 384},  {"vit_s4", "ffn, second", 12, 4160, 384, 1536},
    {"cct4_3x2", "q, k, v", 4, 8192, 384, 128},     {"cct4_3x2", "projection, ffn", 12, 8192, 128, 128},
    {"gpt", "q, k, v", 6, 16384, 1152, 384},        {"gpt", "projection", 6, 16384, 384, 384},
    {"gpt", "ffn, first", 6, 16384, 1536, 384},     {"gpt", "ffn, second", 6, 16384, 384, 1536},
};

struct Pass {
  const char* name;
  Gemm product;
};

std::vector<Pass> passes(const Layers& l, DType dtype) {
  return {{"y", {.transpose_b = true, .m = l.rows, .n = l.out, .k = l.in}},
          {"dx", {.m = l.rows, .n = l.in, .k = l.out}},
          {"dW", {.transpose_a = true, .m = l.out, .n = l.in, .k = l.rows, .f32_c = dtype == DType::bf16}}};
}

// Multiplies in pieces, on all threads, as gemm() does when it calls a library.
template <bool (*library)(DType, const Gemm&, const GemmPointers&)>
bool in_pieces(DType dtype, const Gemm& g, const GemmPointers& p) {
  std::atomic<bool> done = true;
  multiply_in_pieces(dtype, g, p, [&](DType type, const Gemm& piece, const GemmPointers& pointers) {
    if (!library(type, piece, pointers)) done = false;
  });
  return done;
}

#ifdef FOLDGRAD_HAVE_ONEDNN
bool onednn_with_panels(DType dtype, const Gemm& g, const GemmPointers& p) {
  const auto panels = onednn_panels(dtype, g, p);
  GemmPointers pointers = p;
  pointers.panels_b = panels.get();
  return in_pieces<onednn_gemm_cpu>(dtype, g, pointers);
}
#endif

struct BackEnd {
  std::string name;
  bool (*multiply)(DType, const Gemm&, const GemmPointers&);
};

std::vector<BackEnd> back_ends(DType dtype) {
  std::vector<BackEnd> all;
#ifdef FOLDGRAD_HAVE_ONEDNN
  all.push_back({onednn_name(), onednn_with_panels});
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
  if (dtype == DType::f32) all.push_back({"CBLAS", in_pieces<cblas_gemm_cpu>});
#endif
  if (dtype == DType::f32) all.push_back({"own", fma_gemm_cpu});
  return all;
}

struct Options {
  int rounds = 9, threads = foldgrad::threads();
  DType dtype = DType::f32;
  std::vector<std::string> steps;
};

// The sums of one back end over a step: the median seconds, and the seconds that the peak would take.
struct Total {
  double seconds = 0, at_peak = 0;
  bool complete = true;
};

// Prints a row of the table and adds its seconds to the totals, one for each back end.
void time_product(const Options& options, const Layers& l, const Pass& pass, std::vector<Total>& totals) {
  const Gemm g = resolved(pass.product);
  const Tensor a = random_tensor({g.m, g.k}, options.dtype), b = random_tensor({g.n, g.k}, options.dtype),
               c = Tensor::empty({g.m, g.n}, g.f32_c ? DType::f32 : options.dtype);
  const std::vector<BackEnd> all = back_ends(options.dtype);
  std::vector<std::vector<double>> seconds(all.size()), shares(all.size());
  const double flops = 2.0 * double(g.m) * double(g.n) * double(g.k);
  double peak = 0;
  for (int round = -1; round < options.rounds; ++round) {  // round -1 does not count, since oneDNN compiles in it
    const double fma = fma_peak();
    peak += round < 0 ? 0 : fma / options.rounds;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t e = (i + std::size_t(round + 1)) % all.size();  // since the first back end finds cold caches
      bool done = true;
      const double took = device_seconds(
          Device::cpu, 1, [] {},
          [&] { done = all[e].multiply(options.dtype, g, {.c = c.raw(), .a = a.raw(), .b = b.raw()}); })[0];
      if (round < 0 || !done) continue;
      seconds[e].push_back(took);
      shares[e].push_back(100 * flops / took / fma);
    }
  }
  fmt::print("| {} | {} | {} | {} x {} x {} | {:.1f} |", l.name, pass.name, l.count, g.m, g.n, g.k,
             l.count * flops / 1e9);
  for (std::size_t e = 0; e < all.size(); ++e) {
    if (seconds[e].empty()) {
      totals[e].complete = false;
      fmt::print(" - |");
      continue;
    }
    totals[e].seconds += l.count * median(seconds[e]);
    totals[e].at_peak += l.count * flops / peak;
    fmt::print(" {:.0f} ({:.0f}) |", median(shares[e]), *std::max_element(shares[e].begin(), shares[e].end()));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void time_step(const Options& options, const std::string& step) {
  fmt::print("\n{}, {}, {} threads, % of the peak: median (best) of {} rounds\n\n", step, name(options.dtype),
             options.threads, options.rounds);
  const std::vector<BackEnd> all = back_ends(options.dtype);
  fmt::print("| layers | | number | m x n x k | GFLOP |");
  for (const BackEnd& back_end : all) fmt::print(" {} |", back_end.name);
  fmt::print("\n|---|---|---|---|---|");
  for (std::size_t e = 0; e < all.size(); ++e) fmt::print("---|");
  fmt::print("\n");
  std::vector<Total> totals(all.size());
  for (const Layers& l : kLayers)
    if (l.step == step)
      for (const Pass& pass : passes(l, options.dtype)) time_product(options, l, pass, totals);
  fmt::print("| **all** | | | | |");
  for (const Total& total : totals)
    total.complete ? fmt::print(" **{:.0f}** |", 100 * total.at_peak / total.seconds) : fmt::print(" - |");
  fmt::print("\n");
}

int run(int argc, char** argv) try {
  require_cpu_support();
  Options options;
  CLI::App app("Times the matrix products of a training step with each back end");
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--dtype", options.dtype)
      ->transform(CLI::CheckedTransformer(std::map<std::string, DType>{{"f32", DType::f32}, {"bf16", DType::bf16}}));
  const std::vector<std::string> steps = {"iwslt", "multi30k", "vit_s4", "cct4_3x2", "gpt"};
  app.add_option("STEP", options.steps, "default: all steps")->check(CLI::IsMember(steps));
  CLI11_PARSE(app, argc, argv);
  set_threads(options.threads);
  fmt::print("{}, build for {}\n", cpu_model(), cpu_level());
  for (const std::string& step : options.steps.empty() ? steps : options.steps) time_step(options, step);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "products_bench: {}\n", e.what());
  return 1;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) { return foldgrad::bench::run(argc, argv); }
