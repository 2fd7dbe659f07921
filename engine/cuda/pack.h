// A pack is a few neighbouring elements that a thread loads or stores with one access of up to 16 bytes. Memory-bound
// kernels need many bytes in flight, and one wide access keeps more in flight than several narrow ones. This header is
// for .cu files.
//
// A pack must begin at a multiple of its size. If rows or operands are not aligned, kernels use packs of one element.
// Lanes then still access consecutive elements, so accesses cover whole sectors of memory, but take more instructions.
//
// All lanes of a warp make the same accesses; a lane with nothing to load or store passes wanted = false. This allows
// the emulation to check alignment and count sectors (emulation/global_memory.h).
#pragma once
#include "engine/cuda/launch.h"
#include "engine/fast.h"
#include "engine/grad_out.h"
#ifndef __CUDACC__
#include "emulation/global_memory.h"
#endif

namespace foldgrad {

// kPackSize is the number of elements in a pack. takes_packs() returns true if packs fit and fast kernels are enabled.
#ifdef FOLDGRAD_FAST
inline FastKernel fast_packs("cuda: packs");
template <class T>
constexpr int kPackSize = 16 / int(sizeof(T));
inline bool takes_packs(bool fit) { return fit && !FastKernel::off && ++fast_packs.runs; }
#else
template <class T>
constexpr int kPackSize = 1;
inline bool takes_packs(bool fit) { return fit; }
#endif

template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T v[N];
};

template <class... Pointers>
FOLDGRAD_HD bool begin_at_multiples(std::size_t bytes, const Pointers*... at) {
  return ((reinterpret_cast<std::uintptr_t>(at) % bytes == 0) && ...);
}
// Returns true if all of these addresses are null or aligned for packs of `bytes` bytes, and fast kernels are enabled.
template <class... Pointers>
bool aligned_for_packs(std::size_t bytes, const Pointers*... at) {
  return takes_packs(begin_at_multiples(bytes, at...));
}

#ifdef __CUDACC__

// An unsigned integer of `bytes` bytes.
template <int bytes>
using PackWord = std::conditional_t<
    bytes == 16, uint4,
    std::conditional_t<
        bytes == 8, uint2,
        std::conditional_t<bytes == 4, unsigned, std::conditional_t<bytes == 2, unsigned short, unsigned char>>>>;

// Loads data that nothing writes while the kernel runs. Returns zeros if `wanted` is false.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from, bool wanted = true) {
  using Word = PackWord<int(N * sizeof(T))>;
  Word word = {};
  if (wanted) word = __ldg(reinterpret_cast<const Word*>(from));
  Pack<T, N> pack;
  memcpy(&pack, &word, sizeof word);
  return pack;
}
// Loads data that is in the caches, so that the emulation does not count it as traffic.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_cached_pack(const T* from, bool wanted = true) {
  return load_pack<N>(from, wanted);
}
// Loads data that this thread may write later.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_own_pack(const T* from, bool wanted = true) {
  using Word = PackWord<int(N * sizeof(T))>;
  Word word = {};
  if (wanted) word = *reinterpret_cast<const Word*>(from);
  Pack<T, N> pack;
  memcpy(&pack, &word, sizeof word);
  return pack;
}
// Stores with __stwb, which is a single instruction. nvcc may split a plain assignment into four stores.
template <class T, int N>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack, bool wanted = true) {
  using Word = PackWord<int(N * sizeof(T))>;
  Word word;
  memcpy(&word, &pack, sizeof word);
  if (wanted) __stwb(reinterpret_cast<Word*>(to), word);
}

#else

template <int N, class T>
Pack<T, N> load_pack(const T* from, bool wanted = true, const CallSite& site = call_site("load_pack")) {
  emulation::global_access(site, from, sizeof(Pack<T, N>), wanted);
  Pack<T, N> pack = {};
  for (int i = 0; i < N && wanted; ++i) pack.v[i] = from[i];
  return pack;
}
template <int N, class T>
Pack<T, N> load_cached_pack(const T* from, bool wanted = true, const CallSite& site = call_site("load_cached_pack")) {
  emulation::check_alignment(site, from, sizeof(Pack<T, N>), wanted);
  Pack<T, N> pack = {};
  for (int i = 0; i < N && wanted; ++i) pack.v[i] = from[i];
  return pack;
}
template <int N, class T>
Pack<T, N> load_own_pack(const T* from, bool wanted = true, const CallSite& site = call_site("load_pack")) {
  return load_pack<N>(from, wanted, site);
}
template <class T, int N>
void store_pack(T* to, const Pack<T, N>& pack, bool wanted = true, const CallSite& site = call_site("store_pack")) {
  emulation::global_access(site, to, sizeof(Pack<T, N>), wanted);
  for (int i = 0; i < N && wanted; ++i) to[i] = pack.v[i];
}

#endif

template <class T, int N>
__device__ __forceinline__ Pack<T, N> rounded(const compute_t<T> (&values)[N]) {
  Pack<T, N> pack;
  FOLDGRAD_UNROLL
  for (int e = 0; e < N; ++e) pack.v[e] = T(values[e]);
  return pack;
}

// Like put_result (engine/cpu/run_element.h), but for a pack that begins with element i.
template <class T, int N>
__device__ __forceinline__ void put_pack(T* y, std::int64_t i, const compute_t<T> (&values)[N], bool wanted = true) {
  store_pack(y + i, rounded<T>(values), wanted);
}
template <class T, int N>
__device__ __forceinline__ void put_pack(const GradOut<T>& out, std::int64_t i, const compute_t<T> (&values)[N],
                                         bool wanted = true) {
  using Value = compute_t<T>;
  const bool added = out.mode == GradMode::add;
  const Pack<T, N> before = load_own_pack<N>(out.data + i, added && wanted);
  Value sums[N];
  FOLDGRAD_UNROLL
  for (int e = 0; e < N; ++e) sums[e] = added ? Value(before.v[e]) + values[e] : values[e];
  store_pack(out.data + i, rounded<T>(sums), wanted);
}

}  // namespace foldgrad
