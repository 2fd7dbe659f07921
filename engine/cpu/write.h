// Loops that write results on the CPU. Results that are too large for the caches bypass them.
//
// A plain store first fetches the cache line that it will overwrite, and later evicts another line. Non-temporal stores
// do neither, which saves one third of the traffic of a copy. But then the next operation finds nothing in the cache,
// so only large results use them. They are not ordered with other stores, so parallel() ends with finish_writes().
#pragma once
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "engine/cpu/vector_width.h"
#include "engine/grad_out.h"

namespace foldgrad {

// Results of at least this size bypass the caches. Tuned on a Zen 5 with 32 MiB of cache for 8 cores: with plain
// stores, y = f(x) followed by z = f(y) is slower for tensors above 12 to 16 MiB, and takes a quarter longer for 64
// MiB.
constexpr std::int64_t kBypassBytes = std::int64_t(16) << 20;

template <class T>
constexpr bool bypasses_cache(const T*, std::int64_t elements) {
  return elements * std::int64_t(sizeof(T)) >= kBypassBytes;
}
template <class T>
constexpr bool bypasses_cache(const GradOut<T>& target, std::int64_t elements) {
  return bypasses_cache(target.data, elements);
}

// Copies a whole register, kVectorBytes, in one store; `to` must be aligned to kVectorBytes.
inline void store_past_cache(void* to, const void* values) {
#if defined(__AVX512F__)
  _mm512_stream_si512(static_cast<__m512i*>(to), _mm512_loadu_si512(values));
#elif defined(__AVX__)
  _mm256_stream_si256(static_cast<__m256i*>(to), _mm256_loadu_si256(static_cast<const __m256i*>(values)));
#elif defined(__SSE2__)
  _mm_stream_si128(static_cast<__m128i*>(to), _mm_loadu_si128(static_cast<const __m128i*>(values)));
#else
  std::memcpy(to, values, kVectorBytes);
#endif
}

// Makes this thread's earlier writes visible to other threads before its later writes.
inline void finish_writes() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// Stores y[i] = f(i) for begin <= i < end. f may also have side effects for element i.
template <class T, class F>
[[gnu::flatten]] void write_cpu(T* y, std::int64_t begin, std::int64_t end, bool bypass, const F& f) {
  const F local = f;  // a copy in registers: a reference could alias the output
  if (bypass) {
    constexpr int kStep = kVectorBytes / int(sizeof(T));
    for (; begin < end && reinterpret_cast<std::uintptr_t>(y + begin) % kVectorBytes; ++begin)
      y[begin] = T(local(begin));
    for (; begin + kStep <= end; begin += kStep) {
      T values[kStep];  // the compiler keeps this array in a register
#pragma omp simd
      for (int j = 0; j < kStep; ++j) values[j] = T(local(begin + j));
      store_past_cache(y + begin, values);
    }
  }
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) y[i] = T(local(i));
}

// Has the effect of dx.put(i, f(i)) for each i, but decides only once whether to set or to add.
template <class T, class F>
[[gnu::flatten]] void write_cpu(const GradOut<T>& dx, std::int64_t begin, std::int64_t end, bool bypass, const F& f) {
  T* target = dx.data;
  if (dx.mode == GradMode::set) return write_cpu(target, begin, end, bypass, f);
  const F local = f;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) target[i] = T(compute_t<T>(target[i]) + local(i));
}

}  // namespace foldgrad
