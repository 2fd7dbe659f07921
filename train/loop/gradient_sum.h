// Sums over ranks: each has the gradients of its part of a batch, and gets those of the whole.
#pragma once
#include "engine/named_tensors.h"
#include "engine/parallel/communicator.h"
#include "engine/tape.h"

namespace foldgrad {

// Replaces gradients, where there are any, and losses by their sums over the ranks. Gradients are
// sent in buckets of some 25 MiB, as by PyTorch's DDP, which is also the memory that it takes.
void sum_over_ranks(Communicator& communicator, const std::vector<Parameter*>& parameters, std::vector<Tensor>& losses);

// The part of the inputs that a rank computes: of B examples, the first axis of each tensor, those from B r / R to
// B (r + 1) / R for rank r of R, which may be none. Null: all.
NamedTensors part_of(const NamedTensors& inputs, const Communicator* communicator);

}  // namespace foldgrad
