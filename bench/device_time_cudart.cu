#include "bench/machine.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/runtime/cudart.h"

namespace foldgrad::bench {
namespace {

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  void record() { check_cuda(cudaEventRecord(event_, cuda_stream()), "cudaEventRecord"); }
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::vector<double> event_seconds(int times, const std::function<void()>& before, const std::function<void()>& timed) {
  std::vector<Event> starts(times), ends(times);
  for (int i = 0; i < times; ++i) {
    before();
    starts[i].record();
    timed();
    ends[i].record();
  }
  cuda_synchronize();
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) seconds.push_back(ends[i].seconds_since(starts[i]));
  return seconds;
}

}  // namespace foldgrad::bench
