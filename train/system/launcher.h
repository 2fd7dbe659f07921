// The launcher, if any, that started this process as one of several.
#pragma once
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "engine/parallel/processes.h"

namespace foldgrad {

// This process's position among several, as its launcher's environment variables describe it.
struct Launch {
  std::string by = "";  // "mpirun", "srun", "torchrun"; empty if there is only this process
  int rank = 0, count = 1;
  int local_rank = 0, local_count = 1;  // rank and number of the processes on this machine
  std::string host = "";                // for torchrun, the host on which the first process waits
  int port = 0;
};

// Reads the environment variables of Open MPI (OMPI_COMM_WORLD_SIZE), of other launchers with PMI (PMI_SIZE), of srun
// (SLURM_STEP_NUM_TASKS) and of torchrun (TORCHELASTIC_RUN_ID). torchrun itself listens on MASTER_PORT, so the
// processes use the next port. variable(NAME) returns an environment variable, or null if it is not set; the
// default reads this process's environment. Throws std::invalid_argument for values that are not numbers, and for
// impossible addresses and ports.
Launch find_launch(const std::function<const char*(const char*)>& variable = [](const char* name) -> const char* {
  return std::getenv(name);
});
// Returns "4 processes started by mpirun; this is process 2", or "one process".
std::string describe(const Launch& launch);

// Connects this process with the others that the launcher started. The other processes must connect within `timeout`
// seconds. Returns null if there are none. Sets the number of threads to this process's share of the machine's CPUs,
// unless the launcher has bound it to some CPUs or the user has set the number. Throws CommunicationError if the
// library (MPI or, for torchrun, ZeroMQ) is missing or a process does not arrive in time. MPI itself waits without a
// limit, so with MPI join() ends this process instead of throwing.
std::unique_ptr<Processes> join(const Launch& launch, double timeout);

// Returns the device for this process if the user asked for `device`. With "auto" and "cuda", the processes on a
// machine take its GPUs in turn.
std::string device_of(const Launch& launch, const std::string& device);

std::string host_name();

}  // namespace foldgrad
