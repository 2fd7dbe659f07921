// A link between the GPUs of all ranks, over which tensors go without the memory of their hosts. A communicator has one
// only where each rank is a process with a GPU of its own, which all of them find out together before they begin.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace foldgrad {

class Communicator;

class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // The GPU's, which no other one has.
  using Uuid = std::array<std::byte, 16>;
  virtual Uuid uuid() const = 0;
  // Returns, on one rank, what all join by.
  virtual std::string make_id() = 0;
  virtual void join(const std::string& id, int rank, int ranks) = 0;

  // Sends `out` to another rank and receives `in` from it, which does the same. Both lie in the GPU's memory, and may
  // be empty. This is queued as kernels are and need not wait for them. Not for several threads at once. Throws
  // CommunicationError.
  virtual void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) = 0;
};

// Returns what is to join. Throws std::runtime_error, whose message says why this rank cannot.
using OpenDeviceLink = std::function<std::unique_ptr<DeviceLink>()>;

// Joins all ranks, each of which has a process of its own and calls this. Returns null, and why, on all of them when
// one cannot; `open` is empty on a rank that computes on the CPU. A rank whose library waits in join() for one that
// failed there waits without a limit.
std::unique_ptr<DeviceLink> link_devices(Communicator& communicator, const OpenDeviceLink& open, std::string& trouble);

// Opens NCCL on the GPU in use, by a library beside the program (engine/parallel/nccl).
std::unique_ptr<DeviceLink> open_nccl();
// Returns why there is no NCCL; empty where there is.
std::string nccl_trouble();

}  // namespace foldgrad
