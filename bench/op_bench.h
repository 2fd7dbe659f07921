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
// On the CPU products in bf16 are beside the peak of f32 too, which some processors double for them. Without any work
// backward there is no gradient.
struct Work {
  double forward_bytes = 0, backward_bytes = 0;
  double forward_flops = 0, backward_flops = 0;
};

struct OpBench {
  std::string name;              // "layer_norm/8192x512"; bench/pytorch_ops.py uses the same names, for the CPU
  DType dtype;                   // of the operands
  std::vector<Tensor> operands;  // floating ones are differentiated
  std::function<Var(const std::vector<Var>&)> f;
  Work work;
};

// The operations to be measured, on one device. On a GPU in f32 and in bf16, and so large that no cache holds an
// operand.
std::vector<OpBench> op_benches(Device device);

// Computes y and its gradients where all memory at hand has been filled with NaN. Throws std::runtime_error if one of
// their elements is not finite: then a kernel has not written it, and what is timed is not what it should be.
void require_written(const OpBench& op);

}  // namespace foldgrad::bench
