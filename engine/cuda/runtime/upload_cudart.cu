#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/cpu/host_memory.h"
#include "engine/cuda/runtime/cudart.h"
#include "engine/cuda/runtime/device_guard.h"
#include "engine/cuda/runtime/staging_ring.h"

namespace foldgrad::memory {
namespace {

// The ring has room for far more than the ids or images of a batch. Larger copies are made piece by piece. Neither size
// is tuned.
constexpr std::size_t kRingBytes = std::size_t(64) << 20, kPieceBytes = std::size_t(8) << 20;

class Events final : public Marks {
 public:
  std::uint64_t set() override {
    if (unused_.empty()) {
      unused_.emplace_back();
      check_cuda(cudaEventCreateWithFlags(&unused_.back(), cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    check_cuda(cudaEventRecord(unused_.back(), cuda_stream()), "cudaEventRecord");
    set_.emplace(++last_, unused_.back());
    unused_.pop_back();
    return last_;
  }
  bool passed(std::uint64_t mark) override {
    const cudaError_t error = cudaEventQuery(set_.at(mark));
    if (error != cudaErrorNotReady) check_cuda(error, "a kernel or copy before cudaEventQuery");
    return error == cudaSuccess;
  }
  void wait(std::uint64_t mark) override {
    check_cuda(cudaEventSynchronize(set_.at(mark)), "a kernel or copy before cudaEventSynchronize");
  }
  void forget(std::uint64_t mark) override {
    unused_.push_back(set_.at(mark));
    set_.erase(mark);
  }

 private:
  std::unordered_map<std::uint64_t, cudaEvent_t> set_;
  std::vector<cudaEvent_t> unused_;
  std::uint64_t last_ = 0;
};

struct Uploads {
  Uploads() : ring(kRingBytes, events) {
    check_cuda(cudaMallocHost(&memory, kRingBytes), "cudaMallocHost of the staging memory");
  }

  std::mutex mutex;
  void* memory = nullptr;  // page-locked
  Events events;
  StagingRing ring;
};

}  // namespace

void upload(void* target, const void* source, std::size_t bytes) {
  static PerDevice<Uploads*> all;  // never destroyed, since the driver may shut down before the process ends
  const CudaDeviceGuard guard;
  Uploads* const uploads = all.here([] { return new Uploads; });
  const std::lock_guard lock(uploads->mutex);
  for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, bytes - done);
    void* staged = static_cast<char*>(uploads->memory) + uploads->ring.reserve(piece);
    host_copy(staged, static_cast<const char*>(source) + done, piece);
    check_cuda(cudaMemcpyAsync(static_cast<char*>(target) + done, staged, piece, cudaMemcpyHostToDevice, cuda_stream()),
               "cudaMemcpyAsync");
    uploads->ring.queued();
  }
}

}  // namespace foldgrad::memory
