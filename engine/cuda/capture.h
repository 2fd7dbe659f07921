// Whether this thread captures a graph (graph.h) at the moment: for what would otherwise carry out its work at once.
#pragma once
#include <functional>

#include "engine/memory.h"

namespace foldgrad {

bool capturing();

// Throws NotCapturable when it does: "capture: a copy to the host at encoder.layers.0 cannot be captured".
void refuse_in_capture(const char* what);

// This thread captures as long as one lives, and takes memory from the reserve.
class Capturing {
 public:
  explicit Capturing(const memory::Reserve& reserve);
  ~Capturing();
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

 private:
  memory::Reserve::Use use_;
};

// Without the CUDA runtime: while capturing, what a replay will call.
void record(std::function<void()> call);

}  // namespace foldgrad
