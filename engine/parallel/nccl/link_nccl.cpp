// Implements DeviceLink with NCCL, as a separate library (engine/parallel/device_link.h).
#include <nccl.h>

#include <cstring>
#include <exception>
#include <string>

#include "engine/parallel/communicator.h"
#include "engine/parallel/device_link.h"

namespace foldgrad {
namespace {

class NcclLink final : public DeviceLink {
 public:
  NcclLink(const Uuid& uuid, cudaStream_t stream) : uuid_(uuid), stream_(stream) {}
  ~NcclLink() override {
    // If an exception ends this process, the other ranks may never call ncclCommDestroy, and ours would never return.
    if (comm_) std::uncaught_exceptions() == 0 && !failed_ ? ncclCommDestroy(comm_) : ncclCommAbort(comm_);
  }

  Uuid uuid() const override { return uuid_; }

  std::string make_id() override {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return {id.internal, sizeof id.internal};
  }

  void join(const std::string& id, int rank, int ranks) override {
    ncclUniqueId all;
    std::memcpy(all.internal, id.data(), sizeof all.internal);
    check(ncclCommInitRank(&comm_, ranks, all, rank), "ncclCommInitRank");
  }

  void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) override {
    ncclResult_t before = ncclSuccess, sent = ncclSuccess, received = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &before), "ncclCommGetAsyncError");
    check(before, "an exchange before");
    check(ncclGroupStart(), "ncclGroupStart");
    if (!out.empty()) sent = ncclSend(out.data(), out.size(), ncclInt8, partner, comm_, stream_);
    if (!in.empty()) received = ncclRecv(in.data(), in.size(), ncclInt8, partner, comm_, stream_);
    const ncclResult_t ended = ncclGroupEnd();  // needed even after an error, or the next group would join this one
    check(sent, "ncclSend");
    check(received, "ncclRecv");
    check(ended, "ncclGroupEnd");
  }

 private:
  void check(ncclResult_t result, const char* call) {
    if (result == ncclSuccess) return;
    failed_ = true;
    throw CommunicationError(std::string("nccl: ") + call + ": " + ncclGetErrorString(result) + "; " +
                             ncclGetLastError(comm_));
  }

  const Uuid uuid_;
  const cudaStream_t stream_;
  ncclComm_t comm_ = nullptr;
  bool failed_ = false;
};

}  // namespace
}  // namespace foldgrad

extern "C" foldgrad::DeviceLink* foldgrad_open_nccl(const foldgrad::DeviceLink::Uuid& uuid, cudaStream_t stream) {
  return new foldgrad::NcclLink(uuid, stream);
}
