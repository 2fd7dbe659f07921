// Runs ranks as threads. Ranks of one process exchange messages in memory; ranks of different processes use Processes.
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
  int ranks = 1;                   // ranks in all processes: a power of two, and a multiple of Processes::count()
  Processes* processes = nullptr;  // must outlive the team; null if there is only this process
  double timeout = 600;            // seconds that a rank waits for another rank
  int threads = 1;                 // compute threads that the ranks of this process share; each rank has at least one
  OpenDeviceLink open_link = {};   // links this process's GPU to the other processes' GPUs; empty on the CPU
};

class Team {
 public:
  // Throws std::invalid_argument if the number of ranks violates the rules above.
  explicit Team(const TeamOptions& options);

  int first() const { return first_; }  // index of the first rank of this process
  int local() const { return local_; }  // the number of ranks in this process

  // Calls `body` with the communicator of each rank of this process. The first rank runs on the calling thread, and
  // each other rank on a new thread. If one rank throws, the other ranks throw CommunicationError as soon as they wait
  // for it. Once all ranks have ended, run() rethrows the first exception. Call run() only once.
  void run(const std::function<void(Communicator&)>& body);

  // While `body` runs, returns why tensors go through host memory, or an empty string if the GPUs are linked. The
  // answer is the same on all ranks.
  const std::string& link_trouble() const { return link_trouble_; }

 private:
  TeamOptions options_;
  int first_, local_;
  std::string link_trouble_ = "several ranks share a process";
};

}  // namespace foldgrad
