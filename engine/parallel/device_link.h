// A link between the GPUs of all ranks, which transfers tensors without passing through host memory. A communicator has
// a link only if each rank is a process with its own GPU; the ranks check this together before they begin.
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

  // Identifies the rank's GPU uniquely.
  using Uuid = std::array<std::byte, 16>;
  virtual Uuid uuid() const = 0;
  // Returns the id that all ranks pass to join(). Only one rank calls this.
  virtual std::string make_id() = 0;
  virtual void join(const std::string& id, int rank, int ranks) = 0;

  // Sends `out` to rank `partner` and receives `in` from it. The partner makes the matching call. Both are in GPU
  // memory and may be empty. The exchange is queued like a kernel, so the call may return before the data have arrived.
  // Call this from one thread at a time. Throws CommunicationError.
  virtual void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) = 0;
};

// A function that returns a link that has not joined yet. Throws std::runtime_error with the reason if this rank cannot
// open one.
using OpenDeviceLink = std::function<std::unique_ptr<DeviceLink>()>;

// Links the GPUs of all ranks. Each rank must be a separate process, and all ranks must call this. If one rank fails,
// all ranks return null and put the reason into `trouble`. `open` is empty on ranks that compute on the CPU. Caution:
// if a rank fails in join(), the library may wait for that rank forever on the other ranks.
std::unique_ptr<DeviceLink> link_devices(Communicator& communicator, const OpenDeviceLink& open, std::string& trouble);

// Opens NCCL on the GPU in use, through the library next to the program (engine/parallel/nccl).
std::unique_ptr<DeviceLink> open_nccl();
// Returns why NCCL cannot be used, or an empty string if it can be used.
std::string nccl_trouble();

}  // namespace foldgrad
