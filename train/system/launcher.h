// The launcher, if any, that started this process as one of several.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/parallel/processes.h"

namespace foldgrad {

// A process among several, as described by its launcher's environment variables.
struct Launch {
  std::string by = "";  // "mpirun", "srun", "torchrun"; empty if there is only this process
  int rank = 0, count = 1;
  int local_rank = 0, local_count = 1;  // among the processes on this machine
  std::string host = "";                // for torchrun, the host on which the first process waits
  int port = 0;
};

// Reads the variables of OpenMPI (OMPI_COMM_WORLD_SIZE), of others with PMI (PMI_SIZE), of srun (SLURM_STEP_NUM_TASKS)
// and of torchrun (TORCHELASTIC_RUN_ID), which itself listens on MASTER_PORT, so that the processes use the next port.
// `variable` returns an environment variable, or null. Throws std::invalid_argument for values that are not numbers,
// and for impossible addresses and ports.
Launch find_launch(const std::function<const char*(const char*)>& variable);
Launch find_launch();  // in this process's environment
// Returns "4 processes of mpirun, this is 2", or "one process".
std::string describe(const Launch& launch);

// Joins the processes that the launcher started together with this one. They must arrive within `timeout` seconds.
// Returns null if there are no others. Gives each process its share of the machine's threads, unless the launcher has
// bound it to some of them or the user has set their number. Throws CommunicationError if the library is missing (MPI
// or, for torchrun, ZeroMQ) or processes do not arrive. Ends this process if MPI still waits for them.
std::unique_ptr<Processes> join(const Launch& launch, double timeout);

// Returns the device for this process if the user asked for `device`. With auto and cuda, the processes on a machine
// take its GPUs in turn.
std::string device_of(const Launch& launch, const std::string& device);

std::string host_name();

}  // namespace foldgrad
