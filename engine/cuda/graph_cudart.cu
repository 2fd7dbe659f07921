#include "engine/cuda/capture.h"
#include "engine/cuda/cudart.h"
#include "engine/cuda/device_guard.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/launch.h"

namespace foldgrad {
namespace {

// What a stream takes up until it is told to stop, which it must be even if the body throws.
class StreamCapture {
 public:
  // Other threads may do what they like meanwhile.
  explicit StreamCapture(cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  ~StreamCapture() {
    if (stream_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_) cudaGraphDestroy(graph_);
    cudaGetLastError();  // that of a capture that failed has been reported by who made it fail
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  cudaGraph_t end() {
    const cudaStream_t stream = stream_;
    stream_ = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
};

}  // namespace

struct CudaGraph::Captured {
  cudaGraphExec_t graph = nullptr;
  ~Captured() {
    if (graph) cudaGraphExecDestroy(graph);  // once it has run
  }
};

CudaGraph::CudaGraph(const memory::Reserve& reserve) : reserve_(reserve) {}
CudaGraph::~CudaGraph() = default;

void CudaGraph::capture(const std::function<void()>& body) {
  captured_.reset();
  const CudaDeviceGuard guard;
  const Capturing scope(reserve_);
  StreamCapture capture(cuda_stream());
  body();
  auto made = std::make_unique<Captured>();
  check_cuda(cudaGraphInstantiate(&made->graph, capture.end(), 0), "cudaGraphInstantiate");
  captured_ = std::move(made);
}

void CudaGraph::replay() const {
  if (!captured_) throw std::logic_error("graph: nothing has been captured");
  const CudaDeviceGuard guard;
  check_cuda(cudaGraphLaunch(captured_->graph, cuda_stream()), "cudaGraphLaunch");
}

}  // namespace foldgrad
