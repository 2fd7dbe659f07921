// A run on several ranks. Rank 0 owns the directory and the log and makes the decisions. The other ranks repeat the
// steps of rank 0's trainer, so that they reach the same state, and share the work of validations.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/parallel/team.h"
#include "train/runs/setup.h"
#include "train/runs/start.h"

namespace foldgrad {

// Requests from rank 0 to the other ranks.
enum class Order : std::int64_t { step, check, report, validate, end };

// Sends an order to the other ranks. If `communicator` is null, there are no other ranks, and this is a no-op.
void give_order(Communicator* communicator, Order order);

// Scores the model, with averaged weights if there are any. All ranks share the work; if `communicator` is null, this
// process does it all.
Validation validate(Training& training, Communicator* communicator);

// Carries out rank 0's orders on another rank, until Order::end. Throws Diverged if rank 0's trainer does.
TrainingEnd repeat_run(const TrainOptions& options, const RunStart& start, std::unique_ptr<Task> task,
                       Communicator& communicator);

// Calls `train` on all ranks of this process, and returns the result of rank 0 if this process has rank 0.
TrainingEnd on_ranks(const TrainOptions& options, Device device, RunStart start,
                     const std::function<TrainingEnd(RunStart start, Communicator* communicator)>& train);

// Returns true if options.stop() returns true on any rank.
bool stopped_anywhere(const TrainOptions& options, Communicator* communicator);

// Returns the number of parts that a batch is split into: train.shards or, if that is 0, the number of processes.
// Throws ConfigError unless the result is a power of two and a multiple of the number of processes.
std::int64_t shards_of(const TrainConfig& config, int processes);

// Throws std::invalid_argument unless all ranks have the same commit, configuration and data, and ConfigError if the
// first batch has fewer examples than there are ranks, since some ranks would have nothing to do.
void require_common_start(Communicator& communicator, const BuildInfo& build, const ExperimentConfig& config,
                          Task& task);

// Throws ConfigError if the first batch has fewer examples than there are ranks.
void require_examples(Task& task, std::int64_t ranks);

// Returns a text such as "4 ranks in 2 processes", or an empty string if there is only one rank.
std::string ranks_text(const Communicator* communicator, const Processes* processes);
// Returns a text with the fraction of update time spent on communication and the bytes that rank 0 sends per update.
std::string traffic_text(const Communicator& communicator, double seconds, std::int64_t updates);

}  // namespace foldgrad
