// Graphs in builds without nvcc: a list of calls.
#include <utility>
#include <vector>

#include "engine/cuda/capture.h"
#include "engine/cuda/graph.h"

namespace foldgrad {
namespace {

using Calls = std::vector<std::function<void()>>;
thread_local Calls* recording = nullptr;

}  // namespace

struct CudaGraph::Captured {
  Calls calls;
};

CudaGraph::CudaGraph(const memory::Reserve& reserve) : reserve_(reserve) {}
CudaGraph::~CudaGraph() = default;

void CudaGraph::capture(const std::function<void()>& body) {
  captured_.reset();
  auto made = std::make_unique<Captured>();
  const Capturing scope(reserve_);
  recording = &made->calls;
  body();
  captured_ = std::move(made);
}

void CudaGraph::replay() const {
  if (!captured_) throw std::logic_error("graph: nothing has been captured");
  for (const auto& call : captured_->calls) call();
}

void record(std::function<void()> call) { recording->push_back(std::move(call)); }

}  // namespace foldgrad
