// Distributes independent work among the ranks, such as validation batches.
#pragma once
#include <functional>

#include "engine/parallel/communicator.h"

namespace foldgrad {

// Calls work(i) once for each piece i in [0, count), on rank i mod R of the R ranks. Every rank returns the results of
// all pieces in order, so they are bit-identical to those of a single process. Without a communicator, this process
// computes all pieces.
template <class T>
std::vector<std::vector<T>> in_turns(Communicator* communicator, std::int64_t count,
                                     const std::function<std::vector<T>(std::int64_t)>& work) {
  const std::int64_t ranks = communicator ? communicator->size() : 1, first = communicator ? communicator->rank() : 0;
  std::vector<std::vector<T>> results(static_cast<std::size_t>(count));
  std::vector<T> own;  // the concatenated results of this rank
  std::vector<std::size_t> lengths;
  for (std::int64_t i = first; i < count; i += ranks) {
    std::vector<T>& result = results[std::size_t(i)] = work(i);
    own.insert(own.end(), result.begin(), result.end());
    lengths.push_back(result.size());
  }
  if (!communicator) return results;
  const auto all = communicator->all_gather_each(std::span<const T>(own));
  const auto all_lengths = communicator->all_gather_each(std::span<const std::size_t>(lengths));
  for (std::size_t r = 0; r < all.size(); ++r) {
    auto begin = all[r].begin();
    for (std::size_t k = 0; k < all_lengths[r].size(); ++k) {
      const auto end = begin + std::ptrdiff_t(all_lengths[r][k]);
      results[r + k * std::size_t(ranks)].assign(begin, end);
      begin = end;
    }
  }
  return results;
}

}  // namespace foldgrad
