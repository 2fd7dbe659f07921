#include <stdexcept>

#include "bench/machine.h"

namespace foldgrad::bench {

std::vector<double> event_seconds(int, const std::function<void()>&, const std::function<void()>&) {
  throw std::runtime_error("events need a GPU: this build has no CUDA");
}

}  // namespace foldgrad::bench
