// Operations at fixed sizes. Each is measured by two benchmarks, NAME/forward and NAME/backward.
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "engine/memory.h"
#include "engine/tape.h"

namespace foldgrad::bench {

// The minimum work in an operation: the bytes that any implementation must read and write, and the floating-point
// operations of the matrix products. A matrix counts once per pass over the data; vectors and scalars do not count:
//   y = f(x)                               2 n forward: x, y;       3 n backward: dy, x or y, dx (dropout: dy, dx)
//   y = f(a, b)                            3 n forward: a, b, y;    2 n backward: dy, which becomes da, and db
//   statistics over all rows (batch norm)  3 n forward: x, then x, y;  5 n backward: dy, x, then dy, x, dx
// On the CPU, even bf16 products are compared with the f32 peak, although some processors are twice as fast in bf16. If
// both backward members are 0, the operation has no backward pass.
struct Work {
  double forward_bytes = 0, backward_bytes = 0;
  double forward_flops = 0, backward_flops = 0;
};

using Vars = std::vector<Var>;

struct OpBench {
  std::string name;              // for example "layer_norm/8192x512"; also used by bench/pytorch_ops.py, on the CPU
  DType dtype;                   // of the operands
  std::vector<Tensor> operands;  // floating-point ones get gradients
  std::function<Var(const Vars&)> f;
  Work work;
};

// Returns the operations to measure on this device. A GPU runs them in f32 and in bf16, on operands so large that no
// cache can hold one.
std::vector<OpBench> op_benches(Device device);

// Computes y and its gradients in memory filled with NaN. Throws std::runtime_error if an element of the results is not
// finite: some kernel then did not write the element, so timing the kernel would be meaningless.
void require_written(const OpBench& op);

// The sizes of operands.
struct Sizes {
  std::int64_t rows, columns;  // of matrices
  std::int64_t sentences;      // also the number of images, which have a fixed size
  std::int64_t length;         // length of the sentences, for attention
};

// Collects the operations to measure on one device, and draws their operands.
class Benches {
 public:
  const Sizes sizes;

  Benches(Device device, const Sizes& sizes_) : sizes(sizes_), device_(device) {}

  // Sets the dtype of later operands.
  void use(DType dtype) { dtype_ = dtype; }

  // Adds f on these operands. The counts follow the rules of Work, but in elements.
  void memory_bound(const std::string& name, double forward_elements, double backward_elements,
                    std::vector<Tensor> operands, std::function<Var(const Vars&)> f) {
    const double bytes = double(size_of(dtype_));
    add(name, std::move(operands), std::move(f), {bytes * forward_elements, bytes * backward_elements});
  }
  void product(const std::string& name, double forward_flops, double backward_flops, std::vector<Tensor> operands,
               std::function<Var(const Vars&)> f) {
    add(name, std::move(operands), std::move(f), {0, 0, forward_flops, backward_flops});
  }

  // Returns normal values, which repeat after 2^20 elements, since drawing every element of a large tensor would take
  // most of the time.
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
