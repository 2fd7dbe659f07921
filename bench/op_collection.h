// Operations at certain sizes. Each gives two benchmarks: NAME/forward and NAME/backward.
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "engine/memory.h"
#include "engine/tape.h"

namespace foldgrad::bench {

// The least number of bytes that any implementation must read and write, and the floating-point operations of its
// products. Each matrix counts once in each pass that uses it; vectors and scalars do not count:
//   y = f(x)                               2 n forward: x, y;       3 n backward: dy, x or y, dx (dropout: dy, dx)
//   y = f(a, b)                            3 n forward: a, b, y;    2 n backward: dy, which becomes da, and db
//   memory statistics over all rows (batch norm)  3 n forward: x, then x, y;  5 n backward: dy, x, then dy, x, dx
// On the CPU products in bf16 are compared with the peak of f32 too; some processors are twice as fast in bf16. If both
// backward members are 0, the operation has no backward pass.
struct Work {
  double forward_bytes = 0, backward_bytes = 0;
  double forward_flops = 0, backward_flops = 0;
};

using Vars = std::vector<Var>;

struct OpBench {
  std::string name;              // "layer_norm/8192x512"; bench/pytorch_ops.py uses the same names, for the CPU
  DType dtype;                   // of the operands
  std::vector<Tensor> operands;  // floating-point ones get gradients
  std::function<Var(const Vars&)> f;
  Work work;
};

// Returns the operations to be measured, on one device. On a GPU in f32 and in bf16, and so large that no cache holds
// an operand.
std::vector<OpBench> op_benches(Device device);

// Computes y and its gradients in memory filled with NaN. Throws std::runtime_error if an element is not finite: then a
// kernel has not written it, and the timing would be of something else.
void require_written(const OpBench& op);

// The sizes of operands.
struct Sizes {
  std::int64_t rows, columns;  // of matrices
  std::int64_t sentences;      // and images, each of a fixed size
  std::int64_t length;         // of sentences, for attention
};

// Collects operations to be measured on one device, and draws their operands.
class Benches {
 public:
  const Sizes sizes;

  Benches(Device device, const Sizes& sizes_) : sizes(sizes_), device_(device) {}

  // Sets the dtype of later operands.
  void use(DType dtype) { dtype_ = dtype; }

  // Adds f on these operands; see Work for what counts, here in elements.
  void memory_bound(const std::string& name, double forward_elements, double backward_elements,
                    std::vector<Tensor> operands, std::function<Var(const Vars&)> f) {
    const double bytes = double(size_of(dtype_));
    add(name, std::move(operands), std::move(f), {bytes * forward_elements, bytes * backward_elements});
  }
  void product(const std::string& name, double forward_flops, double backward_flops, std::vector<Tensor> operands,
               std::function<Var(const Vars&)> f) {
    add(name, std::move(operands), std::move(f), {0, 0, forward_flops, backward_flops});
  }

  // Draws normal values, which repeat after a million: drawing all of a large tensor would take longest.
  Tensor values(Shape shape) {
    std::normal_distribution<float> normal;
    std::vector<float> drawn(std::min<std::int64_t>(shape.elements(), 1 << 20));
    for (float& x : drawn) x = normal(rng_);
    const Tensor block = Tensor::of({std::int64_t(drawn.size())}, drawn).to(dtype_).to(device_);
    const Tensor all = Tensor::empty(std::move(shape), dtype_, device_);
    for (std::size_t at = 0; at < all.bytes(); at += block.bytes())
      memory::copy(device_, static_cast<char*>(all.raw()) + at, device_, block.raw(),
                   std::min(block.bytes(), all.bytes() - at));
    return all;
  }
  Tensor ids(Shape shape, std::int64_t limit) {
    std::vector<std::int64_t> v(shape.elements());
    for (std::int64_t& id : v) id = std::int64_t(rng_() % std::uint64_t(limit));
    return Tensor::of(std::move(shape), v, device_);
  }

  Tensor bytes(Shape shape) {
    std::vector<std::uint8_t> v(shape.elements());
    for (std::uint8_t& x : v) x = std::uint8_t(rng_());
    return Tensor::of(std::move(shape), v, device_);
  }

  std::vector<OpBench> all;

 private:
  void add(const std::string& name, std::vector<Tensor> operands, std::function<Var(const Vars&)> f, const Work& work) {
    all.push_back({name + (dtype_ == DType::bf16 ? "/bf16" : ""), dtype_, std::move(operands), std::move(f), work});
  }

  Device device_;
  DType dtype_ = DType::f32;
  std::mt19937 rng_{1};
};

// Add operations of vision models (image_op_benches.cpp).
void add_images(Benches& b);  // memory-bound ones
void add_image_input(Benches& b);
void add_convolution(Benches& b);
void add_stem(Benches& b);

}  // namespace foldgrad::bench
