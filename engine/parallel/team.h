// Ranks as threads. Those of one process exchange messages in its memory, others through Processes.
//
//   Team team({.ranks = 4});
//   team.run([&](Communicator& c) { ...; c.all_reduce_sum(gradients); ... });
#pragma once
#include <functional>

#include "engine/parallel/communicator.h"
#include "engine/parallel/device_link.h"
#include "engine/parallel/processes.h"

namespace foldgrad {

struct TeamOptions {
  int ranks = 1;                   // of all processes together: a power of two, and a multiple of their number
  Processes* processes = nullptr;  // which must outlive the team; null: this one alone
  double timeout = 600;            // seconds that a rank waits for another
  int threads = 1;                 // of OpenMP, that the ranks of this process share; each has at least one
  OpenDeviceLink open_link = {};   // of this process's GPU to the others', if it computes on one
};

class Team {
 public:
  // Throws std::invalid_argument for a number of ranks that is not as above.
  explicit Team(const TeamOptions& options);

  int first() const { return first_; }  // rank of this process
  int local() const { return local_; }  // ranks of this process

  // Calls `body` with the communicator of each rank of this process, each on a thread of its own, the first on the
  // calling one. When it throws on one, the others throw CommunicationError as soon as they wait for that rank, and the
  // first exception is thrown again here once all have ended. May be called once.
  void run(const std::function<void(Communicator&)>& body);

  // Returns, while `body` runs, why tensors go through the host's memory, the same on all ranks; empty: GPUs are
  // linked.
  const std::string& link_trouble() const { return link_trouble_; }

 private:
  TeamOptions options_;
  int first_, local_;
  std::string link_trouble_ = "several ranks share a process";
};

}  // namespace foldgrad
