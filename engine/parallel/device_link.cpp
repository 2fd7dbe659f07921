#include "engine/parallel/device_link.h"

#include <algorithm>

#include "engine/check.h"
#include "engine/parallel/communicator.h"

namespace foldgrad {

std::unique_ptr<DeviceLink> link_devices(Communicator& communicator, const OpenDeviceLink& open, std::string& trouble) {
  // Returns true if `step` succeeds on all ranks. `step` must not communicate: a failed rank would not answer.
  const auto all_can = [&](const std::function<void()>& step) {
    std::string own;
    try {
      step();
    } catch (const std::exception& e) {
      own = fmt::format("rank {}: {}", communicator.rank(), e.what());
    }
    trouble = communicator.first_text(own);
    return trouble.empty();
  };
  std::unique_ptr<DeviceLink> link;
  std::string id;
  const auto opens = [&] {
    FOLDGRAD_CHECK(open, "computes on the CPU");
    link = open();
    if (communicator.rank() == 0) id = link->make_id();
  };
  if (!all_can(opens)) return nullptr;
  id = communicator.first_text(id);
  const DeviceLink::Uuid uuid = link->uuid();
  const auto uuids = communicator.all_gather(std::span(&uuid, 1));
  const bool joined =
      all_can([&] { FOLDGRAD_CHECK(std::ranges::count(uuids, uuid) == 1, "shares its GPU with another rank"); }) &&
      all_can([&] { link->join(id, communicator.rank(), communicator.size()); });
  return joined ? std::move(link) : nullptr;
}

}  // namespace foldgrad
