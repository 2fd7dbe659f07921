// The launcher that has started this process as one of several, if any.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/parallel/processes.h"

namespace foldgrad {

// A process of several, as its launcher's variables say.
struct Launch {
  std::string by = "";  // "mpirun", "srun", "torchrun"; empty: it is alone
  int rank = 0, count = 1;
  int local_rank = 0, local_count = 1;  // of those on this machine
  std::string host = "";                // where the first one waits for the others, of torchrun
  int port = 0;
};

// Reads the variables of OpenMPI (OMPI_COMM_WORLD_SIZE), of others with PMI (PMI_SIZE), of srun (SLURM_STEP_NUM_TASKS)
// and of torchrun (TORCHELASTIC_RUN_ID), which listens on MASTER_PORT itself: the processes take the one after it.
// `variable` returns an environment variable, or null. Throws std::invalid_argument for values that are not numbers,
// and for an address or a port that cannot be one.
Launch find_launch(const std::function<const char*(const char*)>& variable);
Launch find_launch();  // in this process's environment
// Returns "4 processes of mpirun, this is 2", or "one process".
std::string describe(const Launch& launch);

// Joins the processes that the launcher has started with this one, which must come within so many seconds; null where
// there are none. Gives each its part of the machine's threads, unless the launcher has bound it to a part, or their
// number was given. Throws CommunicationError where MPI or, for torchrun, ZeroMQ is missing or the processes do not
// come; ends this process where MPI still waits for them.
std::unique_ptr<Processes> join(const Launch& launch, double timeout);

// Returns the device for a process that was asked for `device`: its own of several GPUs on a machine, for auto and
// cuda.
std::string device_of(const Launch& launch, const std::string& device);

std::string host_name();

}  // namespace foldgrad
