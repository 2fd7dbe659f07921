#include "train/system/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "engine/check.h"
#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/device.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct Variables {
  const char *by, *marks, *rank, *count, *local_rank, *local_count;
};
constexpr int kMostPort = 65535;
// The launchers in search order. mpirun comes first, since srun also sets its variables for processes that mpirun
// starts under srun.
constexpr Variables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE"},
    {"mpirun", "PMI_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

// Ends this process if the others do not arrive in time, since MPI would wait for them forever.
std::unique_ptr<Processes> join_by_mpi_within(double timeout, const Launch& launch) {
  std::mutex mutex;
  std::condition_variable_any wake;
  const std::jthread watch([&](std::stop_token joined) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, joined, std::chrono::duration<double>(timeout), [] { return false; });
    if (joined.stop_requested()) return;
    say("error: parallel: not all {} processes started by {} arrived within {:g} s; each process must run this "
        "command\n",
        launch.count, launch.by, timeout);
    std::_Exit(kExitDevice);
  });
  return join_by_mpi();
}

}  // namespace

Launch find_launch(const std::function<const char*(const char*)>& variable) {
  for (const Variables& v : kLaunchers) {
    if (!variable(v.marks)) continue;
    const auto number = [&](const char* name, int otherwise) {
      const char* text = variable(name);
      if (!text) return otherwise;
      int value = 0;
      // SLURM_STEP_TASKS_PER_NODE may be "2(x3)". Only its first number is used.
      const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
      FOLDGRAD_CHECK(error == std::errc() && value >= 0 && (*end == 0 || *end == '(' || *end == ','),
                     "${} must be a number, got \"{}\"", name, text);
      return value;
    };
    Launch launch{v.by, number(v.rank, 0), number(v.count, 1), number(v.local_rank, 0), number(v.local_count, 1)};
    FOLDGRAD_CHECK(launch.count >= 1, "${} must be at least 1, got 0", v.count);
    FOLDGRAD_CHECK(launch.rank < launch.count, "${} must be below ${} = {}, got {}", v.rank, v.count, launch.count,
                   launch.rank);
    FOLDGRAD_CHECK(launch.local_count >= 1, "${} must be at least 1, got 0", v.local_count);
    if (launch.by != std::string("torchrun")) return launch.count > 1 ? launch : Launch();
    if (launch.count == 1) return {};
    const char* host = variable("MASTER_ADDR");
    FOLDGRAD_CHECK(host && *host, "$MASTER_ADDR must be the address of the machine of process 0, got {}",
                   host ? "\"\"" : "nothing");
    launch.host = host;
    const int port = number("MASTER_PORT", 29500);
    FOLDGRAD_CHECK(port >= 1 && port < kMostPort,
                   "$MASTER_PORT must be from 1 to {}, since the processes also use the next port, got {}",
                   kMostPort - 1, port);
    launch.port = port + 1;
    return launch;
  }
  return {};
}

std::string describe(const Launch& launch) {
  if (launch.count == 1) return "one process";
  return fmt::format("{} processes started by {}; this is process {}", launch.count, launch.by, launch.rank);
}

std::unique_ptr<Processes> join(const Launch& launch, double timeout) {
  if (launch.count == 1) return nullptr;
  const int all = std::min(int(std::thread::hardware_concurrency()), processor_quota());
  if (!std::getenv("OMP_NUM_THREADS") && threads() == all) set_threads(std::max(1, all / launch.local_count));
  if (launch.by != "torchrun") return join_by_mpi_within(timeout, launch);
  return join_by_zmq(
      {.rank = launch.rank, .count = launch.count, .host = launch.host, .port = launch.port, .timeout = timeout});
}

std::string device_of(const Launch& launch, const std::string& device) {
  const int gpus = cuda_is_emulated() ? 0 : cuda_devices();
  if (launch.local_count == 1 || gpus <= 1 || (device != "auto" && device != "cuda")) return device;
  return fmt::format("cuda:{}", launch.local_rank % gpus);
}

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

}  // namespace foldgrad
