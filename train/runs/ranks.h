// A run on several ranks. Rank 0 has the directory and the log and takes decisions. The others repeat its trainer's
// steps, which leads to the same state, and share its validations.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/parallel/team.h"
#include "train/runs/setup.h"
#include "train/runs/start.h"

namespace foldgrad {

// Requests of rank 0 to the other ranks.
enum class Order : std::int64_t { step, check, report, validate, end };

// Gives an order to the other ranks. Does nothing if `communicator` is null, since then there are none.
void give_order(Communicator* communicator, Order order);

// Scores the model, with averaged weights if there are any. All ranks share the work; if `communicator` is null, this
// process does it all.
Validation validate(Training& training, Communicator* communicator);

// Carries out orders until Order::end, on a rank other than 0. Throws Diverged if the trainer of rank 0 does.
TrainingEnd repeat_run(const TrainOptions& options, const RunStart& start, std::unique_ptr<Task> task,
                       Communicator& communicator);

// Calls `train` on all ranks of this process, and returns the result of rank 0 if that is one of them.
TrainingEnd on_ranks(const TrainOptions& options, Device device, RunStart start,
                     const std::function<TrainingEnd(RunStart start, Communicator* communicator)>& train);

// Returns true if options.stop() returns true on any rank.
bool stopped_anywhere(const TrainOptions& options, Communicator* communicator);

// Returns the number of parts of a batch, train.shards: 0 means one for each process. Throws ConfigError unless the
// number is a power of two and a multiple of the number of processes.
std::int64_t shards_of(const TrainConfig& config, int processes);

// Throws std::invalid_argument unless all ranks have the same commit, configuration and data, and ConfigError if the
// first batch has fewer examples than there are ranks: most would do nothing.
void require_common_start(Communicator& communicator, const BuildInfo& build, const ExperimentConfig& config,
                          Task& task);

// Throws ConfigError if the first batch has fewer examples than there are ranks.
void require_examples(Task& task, std::int64_t ranks);

// Returns "4 ranks in 2 processes". Empty for a single rank.
std::string ranks_text(const Communicator* communicator, const Processes* processes);
// Returns, as text, communication's share of the updates' time, and the bytes that rank 0 sends in one update.
std::string traffic_text(const Communicator& communicator, double seconds, std::int64_t updates);

}  // namespace foldgrad
