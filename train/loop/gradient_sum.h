// The part of an update in which ranks meet: each has the gradients of its part of the batches, and gets those of all.
#pragma once
#include "engine/named_tensors.h"
#include "engine/parallel/communicator.h"
#include "engine/tape.h"

namespace foldgrad {

// Replaces gradients, where there are any, and losses by their sums over the ranks. Gradients go in buckets of some 25
// MB, as those of PyTorch's DDP, which is what it needs of memory.
void sum_over_ranks(Communicator& communicator, const std::vector<Parameter*>& parameters, std::vector<Tensor>& losses);

// The part of the inputs that a rank computes: of B examples, the first axis of each tensor, those from B r / R to
// B (r + 1) / R for rank r of R, which may be none. Null: all.
NamedTensors part_of(const NamedTensors& inputs, const Communicator* communicator);

}  // namespace foldgrad
