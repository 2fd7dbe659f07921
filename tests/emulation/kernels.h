// Parameters of the kernels in these tests, and how the tests run them.
#pragma once
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/cuda_emulation.h"
#include "engine/cuda/launch.h"

namespace foldgrad {

using emulation::Order;
using emulation::OrderScope;

constexpr unsigned kAll = 0xffffffffu;
constexpr Order kOrders[] = {Order::ascending, Order::descending, Order::shuffled};

struct Array {
  float* data;
  int n;
};

struct Integers {
  int* data;
  int n;
};

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "no error";
}

template <class Params>
std::string error_of_kernel(void (*kernel)(Params), const Grid& grid, const Params& params) {
  return error_of([&] { launch("planted", kernel, grid, params); });
}

// Returns the `n` floats that the kernel leaves, in each of the three orders.
inline std::vector<std::vector<float>> in_all_orders(void (*kernel)(Array), const Grid& grid, int n) {
  std::vector<std::vector<float>> results;
  for (const Order order : kOrders) {
    const OrderScope scope(order);
    std::vector<float> data(n);
    std::iota(data.begin(), data.end(), 1.0f);
    launch("kernel", kernel, grid, Array{data.data(), n});
    results.push_back(data);
  }
  return results;
}

}  // namespace foldgrad
