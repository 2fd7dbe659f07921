// Kernels and copies that are captured once and replayed by one call: to launch a thousand kernels one by one takes the
// host longer than it takes a fast GPU to run them.
//
//   const memory::Reserve reserve;
//   CudaGraph graph(reserve);
//   graph.capture([&] { y = f(x); });  // runs no kernel
//   x.copy_from(next);
//   graph.replay();                    // y is that of the new x
//
// What is captured are launches, and copies and fills within the device, each with its parameters and addresses of that
// moment. So a number that changes must lie in memory of the device, at a place that stays: Random::step_at,
// Optimizer::update. What needs the host in between cannot be captured: a wait, a copy from or to it, memory that
// neither the reserve nor the cache has.
//
// Memory that the body allocates comes from the reserve, and what it frees goes there, so that the next replay finds it
// as the first did. Graphs of one reserve use the same memory one after the other: between two replays only that is
// kept to which somebody holds a tensor. What was there before the capture must outlive the graph.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>

#include "engine/memory.h"

namespace foldgrad {

class NotCapturable : public std::logic_error {
  using std::logic_error::logic_error;
};

class CudaGraph {
 public:
  explicit CudaGraph(const memory::Reserve& reserve);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Calls body() on this thread. Throws NotCapturable, which says what cannot be captured and where in the model, and
  // what the body throws: then nothing has been captured, and no kernel has run.
  void capture(const std::function<void()>& body);
  // Queued behind all kernels before, like a kernel. Throws std::logic_error when nothing has been captured.
  void replay() const;

 private:
  struct Captured;

  const memory::Reserve reserve_;
  std::unique_ptr<Captured> captured_;
};

// False with FOLDGRAD_CUDA_GRAPHS=0 in the environment, and with FOLDGRAD_CUDA_BLOCKING=1, which names single kernels.
bool cuda_graphs_allowed();

}  // namespace foldgrad
