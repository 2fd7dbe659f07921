#include "train/system/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/error_message.h"

namespace foldgrad::testing {
namespace {

Launch launch(const std::map<std::string, std::string>& variables) {
  return find_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, KnowsWhoHasStartedIt) {
  EXPECT_EQ(describe(launch({})), "one process");
  EXPECT_EQ(describe(launch({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}})),
            "4 processes started by mpirun; this is process 2");
  EXPECT_EQ(describe(launch({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}})), "one process");
  EXPECT_EQ(describe(launch({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}})),
            "2 processes started by mpirun; this is process 1");
  EXPECT_EQ(describe(launch({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}})),
            "8 processes started by srun; this is process 5");
  EXPECT_EQ(describe(launch({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}})), "one process");  // in a batch script
  EXPECT_EQ(describe(launch(
                {{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "localhost"}})),
            "2 processes started by torchrun; this is process 0");
  EXPECT_EQ(describe(launch({{"WORLD_SIZE", "2"}, {"RANK", "0"}})), "one process");  // other tools set these, too
}

TEST(Launcher, KnowsItsPlaceOnTheMachine) {
  const Launch here = launch({{"SLURM_STEP_NUM_TASKS", "8"},
                              {"SLURM_PROCID", "5"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}});
  EXPECT_EQ(here.local_rank, 1);
  EXPECT_EQ(here.local_count, 4);
}

TEST(Launcher, KnowsWhereTheProcessesOfTorchrunMeet) {
  const Launch here = launch({{"TORCHELASTIC_RUN_ID", "none"},
                              {"WORLD_SIZE", "2"},
                              {"RANK", "1"},
                              {"MASTER_ADDR", "node-a"},
                              {"MASTER_PORT", "4000"}});
  EXPECT_EQ(here.host, "node-a");
  EXPECT_EQ(here.port, 4001);
}

TEST(Launcher, Errors) {
  const auto error = [](const std::map<std::string, std::string>& variables) {
    return message<std::invalid_argument>([&] { launch(variables); });
  };
  EXPECT_EQ(error({{"PMI_SIZE", "many"}}), "$PMI_SIZE must be a number, got \"many\"");
  EXPECT_EQ(error({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "0"}}),
            "$MPI_LOCALNRANKS must be at least 1, got 0");
  std::map<std::string, std::string> torchrun{{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}};
  const std::string address = "$MASTER_ADDR must be the address of the machine of process 0, got ";
  EXPECT_EQ(error(torchrun), address + "nothing");
  torchrun["MASTER_ADDR"] = "";
  EXPECT_EQ(error(torchrun), address + "\"\"");
  torchrun["MASTER_ADDR"] = "localhost";
  for (const char* port : {"0", "65535", "99999"}) {
    torchrun["MASTER_PORT"] = port;
    EXPECT_EQ(
        error(torchrun),
        std::string("$MASTER_PORT must be from 1 to 65534, since the processes also use the next port, got ") + port);
  }
  torchrun["WORLD_SIZE"] = "0";
  EXPECT_EQ(error(torchrun), "$WORLD_SIZE must be at least 1, got 0");
  EXPECT_EQ(error({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}}), "$PMI_RANK must be below $PMI_SIZE = 2, got 2");
}

}  // namespace
}  // namespace foldgrad::testing
