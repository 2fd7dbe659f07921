#include "models/transformer/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/cpu/vector_math.h"
#include "ops/top_k/top_k.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kBlock = 64;  // its maximum decides, without a branch per element, if it needs a closer look

template <class T>
T largest(const T* z, std::int64_t n) {
  T top = z[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t v = 0; v < n; ++v) top = z[v] > top ? z[v] : top;
  return top;
}

// log sum_v exp(z_v); tops: the largest of each block.
template <class T>
double log_sum_exp(const T* z, std::int64_t V, const std::vector<T>& tops) {
  const T top = largest(tops.data(), std::int64_t(tops.size()));
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t v = 0; v < V; ++v) total += fast_exp_nonpositive(z[v] - top);
  return double(top) + std::log(double(total));
}

// A lower bound for the best `count` tokens: count + 3 blocks have a maximum that reaches it, and at most three of
// these maxima are padding, the end and unk, to which other rules apply.
template <class T>
T bound_of(std::vector<T> tops, std::int64_t count) {
  if (std::int64_t(tops.size()) < count + 3) return -std::numeric_limits<T>::infinity();
  const auto last = tops.begin() + (count + 2);
  std::nth_element(tops.begin(), last, tops.end(), std::greater<T>());
  return *last;
}

// The best `count` candidates offered so far, best first. There are few of them, so insertion beats a heap.
class Best {
 public:
  explicit Best(std::int64_t count) : count_(std::size_t(count)) {}

  // A candidate with a lower score cannot enter.
  double threshold() const {
    return best_.size() < count_ ? -std::numeric_limits<double>::infinity() : best_.back().score;
  }
  void offer(const Candidate& c) {
    if (!(c.score > -std::numeric_limits<double>::infinity())) return;  // NaN too
    std::size_t place = best_.size();
    while (place > 0 && c.before(best_[place - 1])) --place;
    if (place == count_) return;
    best_.insert(best_.begin() + std::ptrdiff_t(place), c);
    if (best_.size() > count_) best_.pop_back();
  }
  std::vector<Candidate> take() { return std::move(best_); }

 private:
  std::size_t count_;
  std::vector<Candidate> best_;
};

bool unk_is_special(std::int64_t V, std::int64_t pad, const DecodingOptions& o) {
  return o.unk >= 0 && o.unk < V && o.unk != o.eos && o.unk != pad;
}

template <class T>
std::vector<Candidate> best_of_row(const T* z, std::int64_t V, std::int64_t row, const Continuation& continuation,
                                   std::int64_t count, std::int64_t pad, const DecodingOptions& options) {
  Best best(count);
  std::vector<T> tops;
  tops.reserve((V + kBlock - 1) / kBlock);
  for (std::int64_t begin = 0; begin < V; begin += kBlock)
    tops.push_back(largest(z + begin, std::min(kBlock, V - begin)));
  const double base = continuation.score - log_sum_exp(z, V, tops);
  const auto offer = [&](std::int64_t v, double penalty) { best.offer({base + double(z[v]) - penalty, row, v}); };
  if (continuation.may_end) offer(options.eos, 0);
  if (!continuation.may_go_on) return best.take();
  if (unk_is_special(V, pad, options)) offer(options.unk, options.unk_penalty);
  const T bound = bound_of(tops, count);
  for (std::int64_t begin = 0; begin < V; begin += kBlock) {
    const T top = tops[begin / kBlock];
    if (top < bound || base + double(top) < best.threshold()) continue;
    const std::int64_t end = std::min(begin + kBlock, V);
    for (std::int64_t v = begin; v < end; ++v)
      if (z[v] >= bound && v != options.eos && v != pad && v != options.unk) offer(v, 0);
  }
  return best.take();
}

// The same for logits on a device, which returns its largest: at most three of them are padding, the end and unk.
std::vector<std::vector<Candidate>> best_on_device(const Tensor& logits, const std::vector<Continuation>& rows,
                                                   std::int64_t count, std::int64_t pad,
                                                   const DecodingOptions& options) {
  const std::int64_t V = logits.shape()[-1], k = std::min(count + 3, V);
  const bool unk = unk_is_special(V, pad, options);
  const TopK top = top_k(logits, k, {options.eos, unk ? options.unk : options.eos});
  const auto on_host = [](const Tensor& t) { return t.to(Device::cpu).to(DType::f64).values<double>(); };
  const std::vector<double> values = on_host(top.values), sums = on_host(top.log_sum_exp),
                            special = on_host(top.wanted);
  const std::vector<std::int64_t> ids = top.indices.values<std::int64_t>();
  std::vector<std::vector<Candidate>> all;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Best best(count);
    const double base = rows[r].score - sums[r];
    const auto offer = [&](std::int64_t v, double z, double penalty) {
      best.offer({base + z - penalty, std::int64_t(r), v});
    };
    if (rows[r].may_end) offer(options.eos, special[2 * r], 0);
    if (rows[r].may_go_on && unk) offer(options.unk, special[2 * r + 1], options.unk_penalty);
    for (std::size_t i = r * std::size_t(k); rows[r].may_go_on && i < (r + 1) * std::size_t(k); ++i)
      if (ids[i] >= 0 && ids[i] != options.eos && ids[i] != pad && ids[i] != options.unk) offer(ids[i], values[i], 0);
    all.push_back(best.take());
  }
  return all;
}

}  // namespace

std::vector<std::vector<Candidate>> best_candidates(const Tensor& logits, const std::vector<Continuation>& rows,
                                                    std::int64_t count, std::int64_t pad,
                                                    const DecodingOptions& options) {
  if (logits.device() != Device::cpu) return best_on_device(logits, rows, count, pad, options);
  const std::int64_t V = logits.shape()[-1], n = std::int64_t(rows.size());
  std::vector<std::vector<Candidate>> best(rows.size());
  const auto search = [&](const auto* z) {
#pragma omp parallel for schedule(static) if (n * V >= 16384)
    for (std::int64_t r = 0; r < n; ++r) best[r] = best_of_row(z + r * V, V, r, rows[r], count, pad, options);
  };
  logits.dtype() == DType::f64 ? search(logits.data<double>()) : search(logits.data<float>());
  return best;
}

}  // namespace foldgrad
