// Helpers of the tests of the emulation: kernel parameters, and functions that run kernels.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <numeric>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/cuda_emulation.h"
#include "engine/cuda/launch.h"
#include "tests/engine/error_message.h"

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
  return testing::message<std::runtime_error>(action);
}

template <class Params>
std::string error_of_kernel(void (*kernel)(Params), const Grid& grid, const Params& params) {
  return error_of([&] { launch("planted", kernel, grid, params); });
}

// kFirstThread is the beginning of each message about the first thread. at(line) is the part of a message that names a
// line of the calling test file.
inline const std::string kFirstThread = "emulation: kernel 'planted', block (0, 0, 0), thread (0, 0, 0): ";
inline std::string at(int line, const std::source_location& caller = std::source_location::current()) {
  return std::string(" at ") + caller.file_name() + ":" + std::to_string(line);
}

// Checks that ThreadSanitizer reports a race and ends the process with exit code 66.
template <class Run>
void expect_race(const Run& run) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((run(), std::exit(0)), ::testing::ExitedWithCode(66), "data race");
}

// Runs the kernel on the floats 1, 2, ..., n in each of the three thread orders, and returns the results.
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
