// Sums over ranks: each has the gradients of its part of a batch, and gets those of the whole.
#pragma once
#include <future>
#include <unordered_map>
#include <unordered_set>

#include "engine/parallel/communicator.h"
#include "engine/tape.h"

namespace foldgrad {

// Sums of gradients in buckets, 25 MiB as in PyTorch's DDP and what exceeds it; one at a time is copied. On the CPU
// threads make them while the backward pass goes on.
class GradientSum {
 public:
  // The parameters, which must outlive this, are those whose gradients are wanted: the same on all ranks.
  GradientSum(Communicator& communicator, std::vector<Parameter*> parameters, std::size_t bucket_bytes = 25 << 20);
  ~GradientSum();  // ends a thread that waits for another rank

  // Lets the sum of each gradient begin when it is complete in the backward pass of `tape`, whose forward pass is
  // recorded: the same operations on all ranks. Nothing else may add to gradients then, up to finish(). Observes the
  // tape meanwhile, which must still be there then.
  void watch(Tape& tape);
  // Replaces gradients, where there are any, and losses by their sums over the ranks. Throws CommunicationError.
  void finish(std::vector<Tensor>& losses);

 private:
  void add(const Parameter& parameter);
  void send();

  Communicator& communicator_;
  const std::vector<Parameter*> parameters_;
  const std::size_t bucket_bytes_;
  const std::unique_ptr<Communicator> background_;  // of the threads
  Tape* watched_ = nullptr;
  // Parameters by the node that uses them first, and so is the last to add to their gradients.
  std::unordered_map<const Node*, std::vector<const Parameter*>> first_uses_;
  std::vector<const Parameter*> complete_;     // once the node at hand is done
  std::unordered_set<const Parameter*> sent_;  // or in the bucket
  std::vector<Tensor> bucket_;
  std::size_t bytes_ = 0;  // of the bucket
  std::future<void> sending_;
};

}  // namespace foldgrad
