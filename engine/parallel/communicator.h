// Communication between the ranks of a data-parallel computation. All ranks call the same operations in the same order.
//
// A rank is a thread of a Team (engine/parallel/team.h), in one process or in several. Code that may also run without
// ranks takes a pointer to a communicator, which is null in that case. Sums are formed in a binary tree over the ranks,
// ((0 + 1) + (2 + 3)) + ..., so their rounding depends on the number of ranks, but not on where the ranks run or on a
// library.
//
//   [PAR-1]  Sums of n elements on S ranks use recursive halving and doubling (Thakur, Rabenseifner, Gropp:
//            "Optimization of Collective Communication Operations in MPICH", 2005): a rank sends 2 n (S - 1) / S
//            elements. Sums of at most kSmallSum bytes use recursive doubling: a rank sends n log2 S elements.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

class DeviceLink;

// Thrown if another rank has failed or does not answer. The message names the operation, training step and ranks.
class CommunicationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Communicator {
 public:
  static constexpr std::size_t kSmallSum = 16384;

  // `size` must be a power of two.
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // All operations throw CommunicationError.
  //
  // Replaces each value by its sum over the ranks. Each rank has the same number of values.
  template <class T>  // T is float or double
  void all_reduce_sum(std::span<T> values) {
    sum(Device::cpu, values);
  }
  // Sums an f32 or f64 tensor, on any device, over the ranks. Linked GPUs (device_link.h) exchange data directly; other
  // GPUs go through host memory. Results are bit-identical.
  void all_reduce_sum(const Tensor& tensor);
  // Returns the values of all ranks, in rank order. Each rank has the same number of values.
  template <class T>
  std::vector<T> all_gather(std::span<const T> own);
  // Returns the values of each rank. The ranks may have different numbers of values.
  template <class T>
  std::vector<std::vector<T>> all_gather_each(std::span<const T> own);
  // Replaces the values on all ranks with the values of rank 0.
  template <class T>
  void broadcast(std::span<T> values) {
    broadcast_bytes(Device::cpu, std::as_writable_bytes(values));
  }
  void broadcast(const Tensor& tensor);  // accepts any dtype and any device
  // Returns the first text in rank order that is not empty, or "" if all are empty.
  std::string first_text(const std::string& own);
  bool any(bool flag);  // returns true if `flag` is true on any rank
  void barrier() { (void)any(false); }

  // Returns a communicator for another thread of each rank. It must not outlive this one. All ranks must call this.
  virtual std::unique_ptr<Communicator> another() = 0;
  // Makes operations that wait, now or later, throw CommunicationError. Any thread may call this.
  virtual void interrupt() = 0;

  // Sets the training step, for messages.
  void at_step(std::int64_t step) { step_ = step; }
  std::int64_t step() const { return step_; }

  // This rank's traffic so far. `seconds` includes waiting for slower ranks, except with linked GPUs.
  struct Traffic {
    std::int64_t exchanges = 0, bytes = 0;  // bytes sent; the same number is received
    double seconds = 0;
  };
  const Traffic& traffic() const { return traffic_; }
  // Moves the traffic of `from`, another communicator of this rank, to this communicator. Counts only `seconds`, the
  // time that this rank has waited for `from`, and not the seconds that `from` has measured.
  void take_traffic(Communicator& from, double seconds);

 protected:
  // Sends `out` to rank `partner` and receives `in` from it. The partner makes the matching call.
  virtual void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) = 0;
  // Returns the link for tensors on GPUs, or null if tensors go through host memory. The answer is the same on all
  // ranks.
  virtual DeviceLink* device_link() const = 0;
  const char* operation() const { return operation_; }

 private:
  // The spans passed to these functions are in the memory of `device`.
  void swap(Device device, int partner, std::span<const std::byte> out, std::span<std::byte> in);
  void broadcast_bytes(Device device, std::span<std::byte> bytes);
  template <class T>
  void sum(Device device, std::span<T> values);
  template <class T>
  void sum_small(Device device, std::span<T> values);
  template <class T>
  void sum_by_halves(Device device, std::span<T> values);
  void gather_bytes(std::byte* all, std::size_t each);
  Device exchanged_on() const { return device_link() ? Device::cuda : Device::cpu; }

  const int rank_, size_;
  const char* operation_ = "";
  std::int64_t step_ = 0;
  Traffic traffic_;
};

// Throws std::invalid_argument unless all ranks have the same texts, each with a name such as "commit". This detects
// ranks that would compute something different. The message contains the text's name and the first line that differs.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
void require_alike(Communicator& communicator, const NamedTexts& texts);

template <class T>
std::vector<T> Communicator::all_gather(std::span<const T> own) {
  std::vector<T> all(own.size() * std::size_t(size_));
  std::copy(own.begin(), own.end(), all.begin() + std::ptrdiff_t(own.size()) * rank_);
  gather_bytes(reinterpret_cast<std::byte*>(all.data()), own.size_bytes());
  return all;
}

template <class T>
std::vector<std::vector<T>> Communicator::all_gather_each(std::span<const T> own) {
  const std::size_t length = own.size();
  const std::vector<std::size_t> lengths = all_gather(std::span(&length, 1));
  const std::size_t longest = std::ranges::max(lengths);
  std::vector<T> padded(own.begin(), own.end());
  padded.resize(longest);
  const std::vector<T> all = all_gather(std::span<const T>(padded));
  std::vector<std::vector<T>> each;
  for (const std::size_t n : lengths) {
    const auto begin = all.begin() + std::ptrdiff_t(each.size() * longest);
    each.emplace_back(begin, begin + std::ptrdiff_t(n));
  }
  return each;
}

}  // namespace foldgrad
