#include "train/runs/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/cpu/threads.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad {

void give_order(Communicator* communicator, Order order) {
  if (communicator) communicator->broadcast(std::span(&order, 1));
}

Validation validate(Training& training, Communicator* communicator) {
  const AveragedWeights averaged(training.trainer.average());
  return training.task->validate(communicator);
}

TrainingEnd repeat_run(const TrainOptions& options, const RunStart& start, std::unique_ptr<Task> task,
                       Communicator& communicator) {
  Training training(start.config, std::move(task), &communicator, /*statistics=*/"");
  if (start.checkpoint) restore_trainer(training.trainer, *start.checkpoint);
  options.began();
  for (Order order{};;) {
    communicator.broadcast(std::span(&order, 1));
    switch (order) {
      case Order::step:
        training.trainer.step();
        (void)stopped_anywhere(options, &communicator);
        break;
      case Order::check:
        training.trainer.check();
        break;
      case Order::report:
        training.trainer.report();
        break;
      case Order::validate:
        validate(training, &communicator);
        break;
      case Order::end:
        return {kExitOk, ""};
    }
  }
}

TrainingEnd on_ranks(const TrainOptions& options, Device device, RunStart start,
                     const std::function<TrainingEnd(RunStart, Communicator*)>& train) {
  Team team({.ranks = int(start.config.train.shards),
             .processes = options.processes,
             .timeout = options.timeout,
             .threads = threads(),
             .open_link = device == Device::cuda ? open_nccl : OpenDeviceLink()});
  if (device == Device::cuda && team.local() > 1)
    throw ConfigError(
        fmt::format("train.shards must be the number of processes if each has a GPU, got {} for {} processes",
                    start.config.train.shards, start.config.train.shards / team.local()));
  TrainingEnd end{kExitOk, ""};
  team.run([&](Communicator& communicator) {
    RunStart own = start;
    communicator.barrier();
    if (device == Device::cuda && communicator.rank() == 0 && !team.link_trouble().empty())
      say("warning: sums over ranks go through host memory: {}\n", team.link_trouble());
    // The checkpoint is large, and every rank has its own copy by now.
    if (communicator.rank() == team.first()) start.checkpoint.reset();
    const TrainingEnd of_rank = train(std::move(own), &communicator);
    if (communicator.rank() == 0) end = of_rank;
  });
  return end;
}

bool stopped_anywhere(const TrainOptions& options, Communicator* communicator) {
  return communicator ? communicator->any(options.stop()) : options.stop();
}

std::int64_t shards_of(const TrainConfig& config, int processes) {
  const std::int64_t shards = config.shards > 0 ? config.shards : processes;
  if (!std::has_single_bit(std::uint64_t(shards)))
    throw ConfigError(fmt::format("train.shards must be a power of two, got {}{}", shards,
                                  config.shards > 0 ? "" : ", the number of processes"));
  if (shards % processes != 0)
    throw ConfigError(
        fmt::format("train.shards must be a multiple of the number of processes, {}, got {}", processes, shards));
  return shards;
}

void require_common_start(Communicator& communicator, const BuildInfo& build, const ExperimentConfig& config,
                          Task& task) {
  std::string data;
  for (const auto& [name, digest] : task.facts().data_digests) data += fmt::format("{} {}\n", name, digest);
  require_alike(communicator, {{"commit", build.commit}, {"configuration", config_text(config)}, {"data", data}});
  require_examples(task, communicator.size());
}

void require_examples(Task& task, std::int64_t ranks) {
  const DataCursor begin = task.batches().cursor();
  const std::int64_t examples = examples_in(task.next().inputs);
  task.batches().seek(begin);
  if (examples < ranks)
    throw ConfigError(
        fmt::format("the first batch has {} examples for {} ranks; use larger batches or fewer ranks (train.shards)",
                    examples, ranks));
}

std::string ranks_text(const Communicator* communicator, const Processes* processes) {
  if (!communicator) return "";
  const int count = processes ? processes->count() : 1;
  return fmt::format("{} ranks in {} process{}", communicator->size(), count, count == 1 ? "" : "es");
}

std::string traffic_text(const Communicator& communicator, double seconds, std::int64_t updates) {
  const Communicator::Traffic& t = communicator.traffic();
  const double n = double(std::max<std::int64_t>(updates, 1));
  return fmt::format(
      "communication: {:.2f} of {:.2f} s in {} updates, {:.1f} %; per update, rank 0 sends {:.3f} MiB in {:.1f} "
      "messages\n",
      t.seconds, seconds, updates, seconds > 0 ? 100 * t.seconds / seconds : 0, double(t.bytes) / n / (1 << 20),
      double(t.exchanges) / n);
}

}  // namespace foldgrad
