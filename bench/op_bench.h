// One operation at one size, from which two benchmarks are made: NAME/forward and NAME/backward.
#pragma once
#include <functional>
#include <vector>

#include "engine/tape.h"

namespace foldgrad::bench {

// The least that any implementation must read and write, and the operations of its products. Each matrix that a pass
// takes part in counts once in that pass, vectors and scalars do not count:
//   y = f(x)                               2 n forward: x, y;       3 n backward: dy, x or y, dx (dropout: dy, dx)
//   y = f(a, b)                            3 n forward: a, b, y;    2 n backward: dy, which becomes da, and db
//   memory statistics over all rows (batch norm)  3 n forward: x, then x, y;  5 n backward: dy, x, then dy, x, dx
// Products in bf16 are beside the peak of f32 too, which some processors double for them. Without any work backward
// there is no gradient.
struct Work {
  double forward_bytes = 0, backward_bytes = 0;
  double forward_flops = 0, backward_flops = 0;
};

struct OpBench {
  std::string name;              // "layer_norm/8192x512"; bench/pytorch_ops.py uses the same names
  std::vector<Tensor> operands;  // floating ones are differentiated
  std::function<Var(const std::vector<Var>&)> f;
  Work work;
};

// The operations to be measured, on one device.
std::vector<OpBench> op_benches(Device device);

}  // namespace foldgrad::bench
