#include "engine/parallel/communicator.h"

#include <algorithm>
#include <utility>

#include "engine/check.h"
#include "engine/dispatch.h"
#include "engine/parallel/device_link.h"
#include "engine/parallel/elapsed.h"
#include "engine/tensor_kernels.h"

namespace foldgrad {
namespace {

template <class T>
std::span<T> values_of(const Tensor& tensor) {
  return {tensor.data<T>(), std::size_t(tensor.size())};
}

template <class T>
void add_to(std::span<T> sum, const Tensor& values) {  // `sum` must be on values.device()
  const Accumulate<T, T> add{{sum.data(), GradMode::add}, values.data<T>(), std::int64_t(sum.size())};
  FOLDGRAD_RUN(values.device(), elementwise, add);
}

// Returns the first line of `text` that differs from `other`.
std::string different_line(const std::string& text, const std::string& other) {
  const auto [here, there] = std::ranges::mismatch(text, other);
  const std::size_t at = std::size_t(here - text.begin());
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 = 0
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void Communicator::swap(Device device, int partner, std::span<const std::byte> out, std::span<std::byte> in) {
  const Clock::time_point begin = Clock::now();
  if (device == Device::cpu) {
    exchange(partner, out, in);
  } else {
    exchange(partner, {}, {});  // times out if the partner does not take part
    device_link()->exchange(partner, out, in);
  }
  traffic_.seconds += seconds_since(begin);
  traffic_.bytes += std::int64_t(out.size());
  ++traffic_.exchanges;
}

// Sums over a binary tree. After the exchange at distance d, each rank has the sum of its subtree of 2 * d ranks. Both
// partners compute the same bits, since a + b = b + a.
template <class T>
void Communicator::sum_small(Device device, std::span<T> values) {
  const Tensor theirs = Tensor::empty({std::int64_t(values.size())}, dtype_of<T>, device);
  for (int d = 1; d < size_; d *= 2) {
    swap(device, rank_ ^ d, std::as_bytes(values), std::as_writable_bytes(values_of<T>(theirs)));
    add_to(values, theirs);
  }
}

// Sums over the same tree, but each rank sums only one slice. On the way up, each rank keeps one half of its range and
// sends the other half to its partner; on the way down, the ranges grow again.
template <class T>
void Communicator::sum_by_halves(Device device, std::span<T> values) {
  struct Halves {
    std::span<T> kept, given;
  };
  std::vector<Halves> levels;
  std::span<T> range = values;
  const Tensor theirs = Tensor::empty({std::int64_t(values.size() + 1) / 2}, dtype_of<T>, device);
  for (int d = 1; d < size_; d *= 2) {
    const std::size_t half = range.size() / 2;
    Halves h{range.first(half), range.subspan(half)};
    if (rank_ & d) std::swap(h.kept, h.given);
    swap(device, rank_ ^ d, std::as_bytes(h.given), std::as_writable_bytes(values_of<T>(theirs).first(h.kept.size())));
    add_to(h.kept, theirs);
    levels.push_back(h);
    range = h.kept;
  }
  for (int d = size_ / 2; d >= 1; d /= 2, levels.pop_back())
    swap(device, rank_ ^ d, std::as_bytes(levels.back().kept), std::as_writable_bytes(levels.back().given));
}

template <class T>
void Communicator::sum(Device device, std::span<T> values) {
  operation_ = "all_reduce_sum";
  values.size_bytes() <= kSmallSum ? sum_small(device, values) : sum_by_halves(device, values);  // [PAR-1]
}
template void Communicator::sum(Device, std::span<float>);
template void Communicator::sum(Device, std::span<double>);

void Communicator::all_reduce_sum(const Tensor& tensor) {
  FOLDGRAD_CHECK(tensor.dtype() == DType::f32 || tensor.dtype() == DType::f64,
                 "all_reduce_sum: the tensor must be f32 or f64, got {}", name(tensor.dtype()));
  Tensor near = tensor.to(exchanged_on()), there = tensor;
  near.dtype() == DType::f32 ? sum(near.device(), values_of<float>(near)) : sum(near.device(), values_of<double>(near));
  if (near.device() != tensor.device()) there.copy_from(near);
}

// Fills `all`, which has `each` bytes per rank and already contains this rank's part. At distance d, partners exchange
// the parts of d consecutive ranks.
void Communicator::gather_bytes(std::byte* all, std::size_t each) {
  operation_ = "all_gather";
  for (int d = 1; d < size_; d *= 2) {
    const std::size_t own = std::size_t(rank_ & ~(d - 1)) * each, other = std::size_t((rank_ ^ d) & ~(d - 1)) * each,
                      bytes = std::size_t(d) * each;
    swap(Device::cpu, rank_ ^ d, {all + own, bytes}, {all + other, bytes});
  }
}

// Broadcasts down a binary tree, starting with the largest subtrees. At distance d, rank 2 d i sends to rank 2 d i + d.
void Communicator::broadcast_bytes(Device device, std::span<std::byte> bytes) {
  operation_ = "broadcast";
  for (int d = size_ / 2; d >= 1; d /= 2) {
    if (rank_ % (2 * d) == 0) swap(device, rank_ + d, bytes, {});
    if (rank_ % (2 * d) == d) swap(device, rank_ - d, {}, bytes);
  }
}

void Communicator::broadcast(const Tensor& tensor) {
  Tensor near = tensor.to(exchanged_on()), there = tensor;
  broadcast_bytes(near.device(), {static_cast<std::byte*>(near.raw()), near.bytes()});
  if (near.device() != tensor.device()) there.copy_from(near);
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

void require_alike(Communicator& communicator, const NamedTexts& texts) {
  for (const auto& [what, text] : texts) {
    const std::string first = communicator.first_text(communicator.rank() == 0 ? text : "");
    std::string difference;
    if (text != first)
      difference = fmt::format("parallel: all ranks must have the same {}: rank {} has \"{}\", rank 0 has \"{}\"", what,
                               communicator.rank(), different_line(text, first), different_line(first, text));
    const std::string found = communicator.first_text(difference);
    FOLDGRAD_CHECK(found.empty(), "{}", found);
  }
}

}  // namespace foldgrad
