// Compares every back end of gemm() on this machine with an independent triple loop, on random operands. The loop sums
// in long double, which is exact enough even for f64.
#pragma once
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/gemm/backends.h"
#include "engine/memory.h"

namespace foldgrad::testing {

template <class T>
struct BackEnd {
  const char* name;
  Device device;
  bool takes_empty;  // accepts empty products, which gemm() never passes to libraries
  bool (*run)(const Gemm&, const GemmPointers&);
};

// Casts the pointers to the types that g and T imply, calls call(c, a, b), and returns true. If there is a bias,
// returns false without a call, since these kernels add no bias: gemm() adds it.
template <class T, class Call>
bool with_pointers(const Gemm& g, const GemmPointers& p, const Call& call) {
  const auto *a = (const T*)p.a, *b = (const T*)p.b;
  if (p.bias) return false;
  if constexpr (std::is_same_v<T, bf16>)
    if (g.f32_c) return call((float*)p.c, a, b), true;
  return call((T*)p.c, a, b), true;
}
template <class T>
bool run_reference(const Gemm& g, const GemmPointers& p) {
  return with_pointers<T>(g, p, [&](auto* c, auto* a, auto* b) { reference_gemm_cpu(resolved(g), c, a, b); });
}
template <class T, Device device>
bool run_gemm(const Gemm& g, const GemmPointers& p) {
  gemm(device, dtype_of<T>, g, p.c, p.a, p.b, p.bias);
  return true;
}
#ifdef FOLDGRAD_HAVE_CUDA
template <class T>
bool run_tiled(const Gemm& g, const GemmPointers& p) {
  return with_pointers<T>(g, p, [&](auto* c, auto* a, auto* b) { tiled_gemm_cuda(resolved(g), c, a, b); });
}
#endif
template <class T, bool (*back_end)(DType, const Gemm&, const GemmPointers&)>
bool run_library(const Gemm& g, const GemmPointers& p) {
  return back_end(dtype_of<T>, resolved(g), p);
}

template <class T>
std::vector<BackEnd<T>> back_ends() {
  std::vector<BackEnd<T>> all = {{"gemm on cpu", Device::cpu, true, run_gemm<T, Device::cpu>},
                                 {"reference", Device::cpu, true, run_reference<T>}};
  if (std::is_same_v<T, float>) all.push_back({"own", Device::cpu, false, run_library<T, fma_gemm_cpu>});
#ifndef __SANITIZE_THREAD__  // ThreadSanitizer cannot see into these libraries
#ifdef FOLDGRAD_HAVE_ONEDNN
  all.push_back({"oneDNN", Device::cpu, false, run_library<T, onednn_gemm_cpu>});
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
  all.push_back({"CBLAS", Device::cpu, false, run_library<T, cblas_gemm_cpu>});
#endif
#endif
#ifdef FOLDGRAD_HAVE_CUDA
  if (cuda_available()) {
    all.push_back({"gemm on cuda", Device::cuda, true, run_gemm<T, Device::cuda>});
    all.push_back({"tiled", Device::cuda, true, run_tiled<T>});
#ifdef FOLDGRAD_HAVE_CUBLAS
    all.push_back({"cuBLAS", Device::cuda, false, run_library<T, cublas_gemm_cuda>});
#endif
  }
#endif
  return all;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Returns the number of elements from the first to the last element of `batch` matrices, including the gaps.
inline std::int64_t extent(std::int64_t batch, std::int64_t batch_stride, std::int64_t rows, std::int64_t row_stride,
                           std::int64_t columns) {
  if (batch == 0 || rows == 0 || columns == 0) return 0;
  return (batch - 1) * batch_stride + (rows - 1) * row_stride + columns;
}

// The operands of one product. Elements between rows and between matrices are NaN, so that the result of a kernel that
// uses them is NaN. If beta is 0, C is NaN as well, since it must not be read. 64 more rows of NaN follow C, to catch
// kernels that write beyond C.
template <class T, class C = T>
struct Operands {
  Gemm g;  // as passed to gemm()
  std::vector<T> a, b, bias;
  std::vector<C> c;

  Operands(const Gemm& given, bool with_bias, unsigned seed) : g(given) {
    const Gemm r = resolved(given);
    std::mt19937 random(seed);
    auto fill = [&]<class E>(std::vector<E>& to, std::int64_t batch_stride, std::int64_t rows, std::int64_t row_stride,
                             std::int64_t columns, bool known) {
      to.assign(extent(g.batch, batch_stride, rows, row_stride, columns), E(kNaN));
      std::uniform_real_distribution<double> uniform(-1, 1);
      for (std::int64_t s = 0; s < (to.empty() ? 0 : g.batch); ++s)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns && known; ++j)
            to[s * batch_stride + i * row_stride + j] = E(uniform(random));
    };
    fill(a, g.batch_stride_a, g.transpose_a ? g.k : g.m, r.row_stride_a, g.transpose_a ? g.m : g.k, true);
    fill(b, g.batch_stride_b, g.transpose_b ? g.n : g.k, r.row_stride_b, g.transpose_b ? g.k : g.n, true);
    fill(c, g.batch_stride_c, g.m, r.row_stride_c, g.n, g.beta != 0);
    c.resize(c.size() + 64 * r.row_stride_c, C(kNaN));
    if (with_bias)
      for (std::int64_t j = 0; j < g.n; ++j) bias.push_back(T(std::uniform_real_distribution<double>(-1, 1)(random)));
  }
};

// Returns C after the product, or nothing if the back end declines the product.
template <class T, class C>
std::optional<std::vector<C>> result(const BackEnd<T>& back_end, const Operands<T, C>& o) {
  std::vector<std::shared_ptr<void>> held;
  auto place = [&]<class E>(const std::vector<E>& values) {
    held.push_back(memory::allocate(back_end.device, values.size() * sizeof(E)));
    memory::copy(back_end.device, held.back().get(), Device::cpu, values.data(), values.size() * sizeof(E));
    return held.back().get();
  };
  GemmPointers p{place(o.c), place(o.a), place(o.b), o.bias.empty() ? nullptr : place(o.bias)};
  if (!back_end.run(o.g, p)) return std::nullopt;
  std::vector<C> c(o.c.size());
  memory::copy(Device::cpu, c.data(), back_end.device, p.c, c.size() * sizeof(C));
  return c;
}

// The expected C and its tolerance. A negative tolerance marks elements that must not change. A sum of k products, in
// any order and with alpha and beta applied at any point, has an error of at most about (k + 8) u times the sum of the
// terms' magnitudes, where u is half the epsilon of the sum's type. Storing the sum as bf16 adds half a unit in the
// last place. See Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
struct Expected {
  std::vector<double> c, tolerance;
};

template <class T, class C>
Expected expected(const Operands<T, C>& o) {
  const Gemm g = resolved(o.g);
  const double u = std::numeric_limits<compute_t<T>>::epsilon() / 2, storing = std::is_same_v<C, bf16> ? 0x1p-8 : 0;
  Expected e{std::vector<double>(o.c.size()), std::vector<double>(o.c.size(), -1)};
  for (std::int64_t s = 0; s < g.batch; ++s)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        long double sum = 0, size = 0;
        auto add = [&](long double term) { sum += term, size += std::abs(term); };
        for (std::int64_t p = 0; p < g.k; ++p) {
          const auto a_at = g.transpose_a ? p * g.row_stride_a + i : i * g.row_stride_a + p;
          const auto b_at = g.transpose_b ? j * g.row_stride_b + p : p * g.row_stride_b + j;
          add(g.alpha * static_cast<long double>(o.a[s * g.batch_stride_a + a_at]) *
              static_cast<long double>(o.b[s * g.batch_stride_b + b_at]));
        }
        const std::int64_t at = s * g.batch_stride_c + i * g.row_stride_c + j;
        if (g.beta != 0) add(g.beta * static_cast<long double>(o.c[at]));
        if (!o.bias.empty()) add(o.bias[j]);
        e.c[at] = double(sum);
        e.tolerance[at] = double(g.k + 8) * u * double(size) + storing * std::abs(e.c[at]);
      }
  return e;
}

// Returns a description of the first wrong element of C, or "" if there is none.
template <class T, class C>
std::string first_error(const Operands<T, C>& o, const Expected& e, const std::vector<C>& got) {
  for (std::size_t at = 0; at < got.size(); ++at)
    if (e.tolerance[at] < 0) {
      if (std::memcmp(&got[at], &o.c[at], sizeof(C)) != 0)
        return fmt::format("element {} is between or after the rows of C, but was written", at);
    } else if (!(std::abs(double(got[at]) - e.c[at]) <= e.tolerance[at])) {
      return fmt::format("element {} of C: got {}, want {} within {}", at, double(got[at]), e.c[at], e.tolerance[at]);
    }
  return "";
}

inline std::string describe(const Gemm& g, bool bias) {
  return fmt::format("A{} B{} m {} n {} k {} rows {} {} {} batch {} {} {} {} alpha {} beta {}{}",
                     g.transpose_a ? "'" : "", g.transpose_b ? "'" : "", g.m, g.n, g.k, g.row_stride_a, g.row_stride_b,
                     g.row_stride_c, g.batch, g.batch_stride_a, g.batch_stride_b, g.batch_stride_c, g.alpha, g.beta,
                     bias      ? " bias"
                     : g.f32_c ? " f32 C"
                               : "");
}

// Returns a description of the first wrong result of any back end, or "" if there is none. Without `emulated`, skips
// back ends on an emulated device.
template <class T, class C = T>
std::string error_of(const Gemm& g, bool bias, unsigned seed, bool emulated = true) {
  const Operands<T, C> o(g, bias, seed);
  const Expected e = expected(o);
  const bool empty = g.batch == 0 || g.m == 0 || g.n == 0 || g.k == 0 || g.alpha == 0;
  for (const BackEnd<T>& back_end : back_ends<T>()) {
    if (empty && !back_end.takes_empty) continue;
    if (!emulated && back_end.device == Device::cuda && cuda_is_emulated()) continue;
    const auto got = result(back_end, o);
    const std::string error = got ? first_error(o, e, *got) : "";
    if (!error.empty()) return fmt::format("{} {} {}: {}", back_end.name, name(dtype_of<T>), describe(g, bias), error);
  }
  return "";
}

inline std::string error_of_types(const Gemm& g, bool bias, unsigned seed = 1) {
  std::string error = error_of<float>(g, bias, seed);
  if (error.empty()) error = error_of<double>(g, bias, seed);
  if (error.empty()) error = error_of<bf16>(g, bias, seed);
  if (!error.empty() || bias) return error;
  Gemm exact = g;
  exact.f32_c = true;
  return error_of<bf16, float>(exact, bias, seed);
}

// The layout of a product: `pad` elements between rows, and `gap` elements between matrices. A shared operand has a
// batch stride of 0.
struct Layout {
  std::int64_t pad = 0, batch = 1, gap = 0;
  bool share_a = false, share_b = false;
};
inline Gemm product(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const Layout& layout = {}) {
  Gemm g;
  g.transpose_a = ta, g.transpose_b = tb;
  g.m = m, g.n = n, g.k = k, g.batch = layout.batch;
  g.row_stride_a = (ta ? m : k) + layout.pad, g.row_stride_b = (tb ? k : n) + layout.pad,
  g.row_stride_c = n + layout.pad;
  g.batch_stride_a = layout.share_a ? 0 : (ta ? k : m) * g.row_stride_a + layout.gap;
  g.batch_stride_b = layout.share_b ? 0 : (tb ? n : k) * g.row_stride_b + layout.gap;
  g.batch_stride_c = m * g.row_stride_c + layout.gap;
  return g;
}

}  // namespace foldgrad::testing
