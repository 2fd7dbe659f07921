#include "engine/parallel/communicator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/check.h"

namespace foldgrad {
namespace {

template <class T>
std::span<const std::byte> bytes_of(std::span<T> values) {
  return std::as_bytes(values);
}

template <class T>
void add_to(std::span<T> sum, const std::vector<T>& values) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

}  // namespace

void Communicator::swap(int partner, std::span<const std::byte> out, std::span<std::byte> in) {
  const auto begin = std::chrono::steady_clock::now();
  exchange(partner, out, in);
  traffic_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  traffic_.bytes += std::int64_t(out.size());
  ++traffic_.exchanges;
}

// After the exchange over distance d a rank has the sum of the 2 d ranks of its subtree. Which of two is added to which
// does not matter: a + b = b + a.
template <class T>
void Communicator::sum_small(std::span<T> values) {
  std::vector<T> theirs(values.size());
  for (int d = 1; d < size_; d *= 2) {
    swap(rank_ ^ d, bytes_of(values), std::as_writable_bytes(std::span(theirs)));
    add_to(values, theirs);
  }
}

// The same tree, of which each rank forms the sums of one slice: at each level it keeps one half of its range and gives
// the other away. Then the ranges grow again, on the way back.
template <class T>
void Communicator::sum_by_halves(std::span<T> values) {
  struct Halves {
    std::span<T> kept, given;
  };
  std::vector<Halves> levels;
  std::span<T> range = values;
  std::vector<T> theirs((values.size() + 1) / 2);
  for (int d = 1; d < size_; d *= 2) {
    const std::size_t half = range.size() / 2;
    Halves h{range.first(half), range.subspan(half)};
    if (rank_ & d) std::swap(h.kept, h.given);
    swap(rank_ ^ d, bytes_of(h.given), std::as_writable_bytes(std::span(theirs).first(h.kept.size())));
    add_to(h.kept, theirs);
    levels.push_back(h);
    range = h.kept;
  }
  for (int d = size_ / 2; d >= 1; d /= 2, levels.pop_back())
    swap(rank_ ^ d, bytes_of(levels.back().kept), std::as_writable_bytes(levels.back().given));
}

template <class T>
void Communicator::all_reduce_sum(std::span<T> values) {
  operation_ = "all_reduce_sum";
  values.size_bytes() <= kSmallSum ? sum_small(values) : sum_by_halves(values);  // [PAR-1]
}
template void Communicator::all_reduce_sum(std::span<float>);
template void Communicator::all_reduce_sum(std::span<double>);

void Communicator::all_reduce_sum(const Tensor& tensor) {
  FOLDGRAD_CHECK(tensor.dtype() == DType::f32 || tensor.dtype() == DType::f64,
                 "all_reduce_sum: the tensor must be f32 or f64, got {}", name(tensor.dtype()));
  Tensor host = tensor.to(Device::cpu), there = tensor;
  const std::size_t n = std::size_t(host.size());
  if (host.dtype() == DType::f32)
    all_reduce_sum(std::span(host.data<float>(), n));
  else
    all_reduce_sum(std::span(host.data<double>(), n));
  if (tensor.device() != Device::cpu) there.copy_from(host);
}

// all: size() places of `each` bytes, of which this rank's is filled. The ranks of a subtree lie side by side.
void Communicator::gather_bytes(std::byte* all, std::size_t each) {
  operation_ = "all_gather";
  for (int d = 1; d < size_; d *= 2) {
    const std::size_t own = std::size_t(rank_ & ~(d - 1)) * each, other = std::size_t((rank_ ^ d) & ~(d - 1)) * each,
                      bytes = std::size_t(d) * each;
    swap(rank_ ^ d, {all + own, bytes}, {all + other, bytes});
  }
}

// From subtree to subtree, the largest first: only ranks that are multiples of 2 d have it, or learn it, at level d.
void Communicator::broadcast_bytes(std::span<std::byte> bytes) {
  operation_ = "broadcast";
  for (int d = size_ / 2; d >= 1; d /= 2) {
    if (rank_ % (2 * d) == 0) swap(rank_ + d, bytes, {});
    if (rank_ % (2 * d) == d) swap(rank_ - d, {}, bytes);
  }
}

void Communicator::broadcast(const Tensor& tensor) {
  Tensor host = tensor.to(Device::cpu), there = tensor;
  broadcast_bytes({static_cast<std::byte*>(host.raw()), host.bytes()});
  if (tensor.device() != Device::cpu) there.copy_from(host);
}

std::string Communicator::first_text(const std::string& own) {
  for (const std::vector<char>& text : all_gather_each(std::span<const char>(own)))
    if (!text.empty()) return {text.begin(), text.end()};
  return "";
}

void Communicator::take_traffic(Communicator& from, double seconds) {
  const Traffic taken = std::exchange(from.traffic_, {});
  traffic_.exchanges += taken.exchanges;
  traffic_.bytes += taken.bytes;
  traffic_.seconds += seconds;
}

bool Communicator::any(bool flag) {
  double sum = flag;
  all_reduce_sum(std::span(&sum, 1));
  return sum > 0;
}

}  // namespace foldgrad
