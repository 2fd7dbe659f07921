#include "engine/cuda/capture.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "engine/cuda/graph.h"
#include "engine/where.h"

namespace foldgrad {
namespace {

thread_local bool captures = false;

bool environment_says(const char* variable, const char* value) {
  const char* found = std::getenv(variable);
  return found && std::string(found) == value;
}

}  // namespace

bool capturing() { return captures; }

void refuse_in_capture(const char* what) {
  if (captures) throw NotCapturable(std::string("capture: ") + what + describe_where() + " cannot be captured");
}

Capturing::Capturing(const memory::Reserve& reserve) : use_(reserve) {
  if (std::exchange(captures, true)) throw NotCapturable("capture: a graph within a graph cannot be captured");
}
Capturing::~Capturing() { captures = false; }

bool cuda_graphs_allowed() {
  static const bool allowed =
      !environment_says("FOLDGRAD_CUDA_GRAPHS", "0") && !environment_says("FOLDGRAD_CUDA_BLOCKING", "1");
  return allowed;
}

}  // namespace foldgrad
