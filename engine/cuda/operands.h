// Lets kernels that are written for a single element load packs of N neighbouring elements (pack.h). A parameter struct
// names its operands:
//
//   template <class Visit>
//   FOLDGRAD_HD void operands(Visit& visit) {
//     visit.element(x);     // read, one per element
//     visit.update(sum);    // read and written, one per element
//     visit.result(y);      // written, one per element: a pointer or a GradOut
//     visit.column(gamma);  // read, one per column
//     visit.row(mu);        // read, one per row
//   }
//
// Example: for y[i] = gamma[c] * x[i] in f32, N is 4. A thread loads x[8 ... 11] and gamma[8 ... 11] into registers,
// points x, y and gamma in its copy of the struct to these registers, runs the struct for elements 0 ... 3 of row 0,
// and stores y[8 ... 11]. So no load waits for a store that might change its source. Null operands are neither loaded
// nor stored. start() receives the actual indices of the pack's first element and row (engine/cpu/run_element.h). This
// header is for .cu files.
#pragma once
#include "engine/cpu/run_element.h"
#include "engine/cuda/pack.h"
#include "engine/philox.h"

namespace foldgrad {

constexpr int kOperands = 9;  // the largest number of operands that a struct may name

template <int N>
struct OperandPacks {
  alignas(16) unsigned char bytes[kOperands][8 * N];  // a slot has room for N doubles

  template <class U>
  __device__ U* slot(int k) {
    return reinterpret_cast<U*>(bytes[k]);
  }
  template <class U>
  __device__ U* put(int k, const Pack<U, N>& pack) {
    U* at = slot<U>(k);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) at[e] = pack.v[e];
    return at;
  }
};

// The base class of the visitors below. It skips every operand. `index` counts the operands in the order in which the
// struct names them.
template <int N>
struct OperandVisitor {
  OperandPacks<N>& packs;
  int index = 0;

  template <class P>
  __device__ void element(P&) {
    ++index;
  }
  template <class P>
  __device__ void update(P&) {
    ++index;
  }
  template <class P>
  __device__ void result(P&) {
    ++index;
  }
  template <class P>
  __device__ void column(P&) {
    ++index;
  }
  template <class P>
  __device__ void row(P&) {
    ++index;
  }
};

// Loads the operands of columns c ... c + N - 1. After the first row, these are in the caches, so the emulation does
// not count them as traffic.
template <int N>
struct FetchColumns : OperandVisitor<N> {
  std::int64_t c;
  bool wanted;

  template <class C>
  __device__ void column(C*& p) {
    using U = std::remove_const_t<C>;
    constexpr int kPiece = N < kPackSize<U> ? N : kPackSize<U>;
    U* at = this->packs.template slot<U>(this->index++);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; e += kPiece) {
      const Pack<U, kPiece> piece = load_cached_pack<kPiece>(p + c + e, wanted && p);
      FOLDGRAD_UNROLL
      for (int k = 0; k < kPiece; ++k) at[e + k] = piece.v[k];
    }
    p = at;
  }
};

// Loads elements i ... i + N - 1 of row r. With kResults, also loads the gradients to which results are added.
template <int N, bool kResults = true>
struct FetchElements : OperandVisitor<N> {
  std::int64_t i, r;
  bool wanted;

  template <class U>
  __device__ void element(const U*& p) {
    p = this->packs.put(this->index++, load_pack<N>(p + i, wanted && p));
  }
  template <class U>
  __device__ void update(U*& p) {
    p = this->packs.put(this->index++, load_own_pack<N>(p + i, wanted && p));
  }
  template <class U>
  __device__ void result(U*& p) {
    p = this->packs.template slot<U>(this->index++);
  }
  template <class U>
  __device__ void result(GradOut<U>& g) {
    const bool added = kResults && wanted && g.data && g.mode == GradMode::add;
    g.data = this->packs.put(this->index++, load_own_pack<N>(g.data + i, added));
  }
  template <class P>
  __device__ void row(P& p) {
    if (p) p += r;
    ++this->index;
  }
};

// Redirects the operands to the elements that FetchElements has loaded.
template <int N>
struct ShowElements : OperandVisitor<N> {
  template <class U>
  __device__ void element(const U*& p) {
    p = this->packs.template slot<U>(this->index++);
  }
  template <class U>
  __device__ void update(U*& p) {
    p = this->packs.template slot<U>(this->index++);
  }
};

template <int N>
struct StoreResults : OperandVisitor<N> {
  std::int64_t i;
  bool wanted;

  template <class U>
  __device__ void update(U*& p) {
    Pack<U, N> pack;
    const U* at = this->packs.template slot<U>(this->index++);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) pack.v[e] = at[e];
    store_pack(p + i, pack, wanted && p);
  }
  template <class U>
  __device__ void result(U*& p) {
    update(p);
  }
  template <class U>
  __device__ void result(GradOut<U>& g) {
    update(g.data);
  }
};

// Lets the visitor redirect the operands of a copy of f, and returns the copy.
template <class F, class Visitor>
__device__ __forceinline__ F visited(F f, Visitor visitor) {
  f.operands(visitor);
  return f;
}

// Checks that element 0 of every operand is aligned for packs of N.
template <int N>
struct AlignedOperands {
  bool aligned = true;

  template <class U>
  FOLDGRAD_HD void element(const U* p) {
    constexpr int kBytes = N * int(sizeof(U)) < 16 ? N * int(sizeof(U)) : 16;
    aligned = aligned && begin_at_multiples(kBytes, p);
  }
  template <class U>
  FOLDGRAD_HD void update(const U* p) {
    element(p);
  }
  template <class U>
  FOLDGRAD_HD void result(const U* p) {
    element(p);
  }
  template <class U>
  FOLDGRAD_HD void result(const GradOut<U>& g) {
    element(g.data);
  }
  template <class U>
  FOLDGRAD_HD void column(const U* p) {
    element(p);
  }
  template <class U>
  FOLDGRAD_HD void row(const U*) {}
};

template <int N, class F>
bool aligned_operands(F f) {
  AlignedOperands<N> visit;
  f.operands(visit);
  return takes_packs(visit.aligned);
}
// Returns true if the operands are aligned (aligned_operands()), and packs of N cover each row of the matrix exactly.
template <int N, class F>
bool in_packs(const F& f) {
  return f.columns % N == 0 && aligned_operands<N>(f);
}

// The pack size for a struct whose first template argument is its element type.
template <class F>
constexpr int kPackOf = 0;
template <template <class, class...> class F, class T, class... Others>
constexpr int kPackOf<F<T, Others...>> = kPackSize<T>;

template <class F, class = void>
struct HasOperands : std::false_type {};
template <class F>
struct HasOperands<F, std::void_t<decltype(std::declval<F&>().operands(std::declval<AlignedOperands<1>&>()))>>
    : std::true_type {};

// The random bits for a pack that begins with element i. A Philox block gives eight half-words of 16 bits, and a pack
// never crosses the end of a block.
template <class F>
struct PackBits {
  PhiloxWords words = {};
  int first = 0;  // index of the half-word for element 0 of the pack

  __device__ PackBits(const F& f, std::int64_t i) {
    if constexpr (IsRandom<F>::value) {
      if (!f.draws()) return;
      words = f.random().block(std::uint64_t(i) / 8);
      first = int(i % 8);
    }
  }
  __device__ std::uint32_t operator()(std::int64_t k) const { return Random::half(words, first + int(k)); }
};

}  // namespace foldgrad
