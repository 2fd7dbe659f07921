// Sums over ranks: each rank contributes the gradients of its part of a batch and receives those of the whole batch.
#pragma once
#include <future>
#include <unordered_map>
#include <unordered_set>

#include "engine/parallel/communicator.h"
#include "engine/tape.h"

namespace foldgrad {

// Sums gradients in buckets, as PyTorch's DDP does. A bucket is full when it has at least 25 MiB. Only one bucket at a
// time is copied. On the CPU, threads sum while the backward pass continues.
class GradientSum {
 public:
  // Sums the gradients of `parameters`, which must be the same on all ranks and must outlive this object.
  GradientSum(Communicator& communicator, std::vector<Parameter*> parameters, std::size_t bucket_bytes = 25 << 20);
  ~GradientSum();  // interrupts a thread that is waiting for another rank

  // Starts summing each gradient as soon as the backward pass of `tape` has completed it. All ranks must have recorded
  // the same operations. Until finish(), nothing else may add to gradients, and `tape` must stay alive.
  void watch(Tape& tape);
  // Replaces all existing gradients and the losses with their sums over the ranks. Throws CommunicationError.
  void finish(std::vector<Tensor>& losses);

 private:
  void add(const Parameter& parameter);
  void send();

  Communicator& communicator_;
  const std::vector<Parameter*> parameters_;
  const std::size_t bucket_bytes_;
  const std::unique_ptr<Communicator> background_;  // used by the background threads
  Tape* watched_ = nullptr;
  // Parameters by the node that uses them first; in the backward pass this node is the last to add to their gradients.
  std::unordered_map<const Node*, std::vector<const Parameter*>> first_uses_;
  std::vector<const Parameter*> complete_;     // parameters whose gradients are complete after the current node
  std::unordered_set<const Parameter*> sent_;  // parameters whose gradients were sent or are in the bucket
  std::vector<Tensor> bucket_;
  std::size_t bytes_ = 0;  // size of the bucket
  std::future<void> sending_;
};

}  // namespace foldgrad
