// The tests that every operation must pass.
#include "engine/cpu/threads.h"
#include "tests/harness/op_spec.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/cuda_emulation.h"
#endif

namespace foldgrad::testing {
namespace {

std::string where(const OpCase& c, std::size_t k) { return c.label + ", operand " + std::to_string(k); }

void gradients(const OpSpec& spec) {
  for (const OpCase& c : spec.cases) {
    if (c.large) continue;
    const OpResult set = run_case(c, DType::f64, Device::cpu, GradMode::set);
    const OpResult add = run_case(c, DType::f64, Device::cpu, GradMode::add);
    for (std::size_t k = 0; k < c.operands.size(); ++k) {
      if (!c.differentiated(k)) continue;
      const Tensor want = central_differences(c, k);
      EXPECT_TRUE(close(set.grads[k], want, 1e-8)) << where(c, k) << ", set";
      EXPECT_TRUE(close(add.grads[k], want, 1e-8)) << where(c, k) << ", added to a gradient";
    }
  }
}

// Checks f(x, x): the gradient of x must be the sum of the gradients that two separate operands with x's values get.
void one_value_as_two_operands(const OpSpec& spec) {
  for (const OpCase& c : spec.cases)
    for (std::size_t a = 0; a < c.operands.size(); ++a)
      for (std::size_t b = a + 1; b < c.operands.size(); ++b) {
        if (!c.differentiated(a) || !c.differentiated(b) || !(c.operands[a].shape() == c.operands[b].shape())) continue;
        OpCase equal = c;
        equal.operands[b] = c.operands[a];
        const OpResult apart = run_case(equal, DType::f64, Device::cpu);
        equal.f = [&](const std::vector<Var>& v) {
          std::vector<Var> same = v;
          same[b] = v[a];
          return c.f(same);
        };
        equal.constants.push_back(int(b));
        for (Device device : devices()) {
          const Tensor got = run_case(equal, DType::f64, device).grads[a];
          Tensor want = apart.grads[a].clone();
          for (std::int64_t i = 0; i < want.size(); ++i) want.data<double>()[i] += apart.grads[b].data<double>()[i];
          EXPECT_TRUE(close(got, want, spec.parity_tolerance))
              << where(c, a) << " = operand " << b << " on " << name(device);
        }
      }
}

// Checks that the gradient of an operand does not change if the other operands get no gradient.
void constants(const OpSpec& spec) {
  for (const OpCase& c : spec.cases)
    for (Device device : devices()) {
      const OpResult all = run_case(c, DType::f64, device);
      for (std::size_t k = 0; k < c.operands.size(); ++k) {
        if (!c.differentiated(k)) continue;
        OpCase partial = c;
        for (std::size_t j = 0; j < c.operands.size(); ++j)
          if (j != k && c.differentiated(j)) partial.constants.push_back(int(j));
        const OpResult one = run_case(partial, DType::f64, device);
        EXPECT_TRUE(close(one.grads[k], all.grads[k], spec.parity_tolerance)) << where(c, k) << " on " << name(device);
      }
    }
}

void compare(const OpCase& c, const OpResult& got, const OpResult& want, double tolerance, const std::string& what) {
  EXPECT_TRUE(close(got.y, want.y, tolerance)) << c.label << ", " << what;
  for (std::size_t k = 0; k < c.operands.size(); ++k)
    if (want.grads[k].defined()) {
      EXPECT_TRUE(close(got.grads[k], want.grads[k], tolerance)) << where(c, k) << ", " << what;
    }
}

void cuda_equals_cpu(const OpSpec& spec) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const OpCase& c : spec.cases)
    for (GradMode mode : {GradMode::set, GradMode::add})
      compare(c, run_case(c, DType::f64, Device::cuda, mode), run_case(c, DType::f64, Device::cpu, mode),
              spec.parity_tolerance, "f64, cuda against cpu");
}

double tolerance_of(const OpSpec& spec, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return spec.f32_roundoffs * std::ldexp(1, -24);
    case DType::bf16:
      return spec.bf16_roundoffs * std::ldexp(1, -9);
    default:
      return spec.parity_tolerance;
  }
}

// Compares f32 and bf16 with f64, on operands that the lower precision can represent.
void lower_precision(const OpSpec& spec) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = tolerance_of(spec, dtype);
    for (const OpCase& c : spec.cases) {
      OpCase rounded = c;
      for (Tensor& t : rounded.operands)
        if (t.dtype() == DType::f64) t = t.to(dtype).to(DType::f64);
      const OpResult want = run_case(rounded, DType::f64, Device::cpu);
      for (Device device : devices())
        compare(c, run_case(rounded, dtype, device), want, tolerance, std::string(name(dtype)) + " on " + name(device));
    }
  }
}

std::int64_t runs_of_fast_kernels() {
  std::int64_t runs = 0;
  for (const FastKernel* k = FastKernel::first; k; k = k->next) runs += k->runs;
  return runs;
}

// Compares fast kernels with plain kernels. Each may differ from f64 by the tolerance of lower_precision(), so they may
// differ from each other by twice this tolerance.
void fast_equals_plain(const OpSpec& spec) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const OpCase& c : spec.cases)
      for (Device device : devices()) {
        const std::int64_t before = runs_of_fast_kernels();
        const OpResult fast = run_case(c, dtype, device, GradMode::add);
        if (runs_of_fast_kernels() == before) continue;
        const PlainKernels plain;
        compare(c, fast, run_case(c, dtype, device, GradMode::add), 2 * tolerance_of(spec, dtype),
                std::string(name(dtype)) + " on " + name(device) + ", fast against plain");
      }
}

void expect_identical(const OpCase& c, const OpResult& got, const OpResult& want, const std::string& what) {
  EXPECT_TRUE(identical(got.y, want.y)) << c.label << ", " << what;
  for (std::size_t k = 0; k < c.operands.size(); ++k)
    if (want.grads[k].defined()) {
      EXPECT_TRUE(identical(got.grads[k], want.grads[k])) << where(c, k) << ", " << what;
    }
}

// Checks that kernels give the same bits in every order of the threads, as they do if their barriers are correct.
void thread_orders(const OpSpec& spec) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "only the emulation can choose the order of threads";
  for (const OpCase& c : spec.cases) {
    const OpResult ascending = run_case(c, DType::f32, Device::cuda);
    in_other_thread_orders(
        [&] { expect_identical(c, run_case(c, DType::f32, Device::cuda), ascending, "another order of the threads"); });
  }
}

// Checks that a second run gives the same bits, and that one CPU thread gives the same bits as three.
void repeats(const OpSpec& spec) {
  const int before = threads();
  for (const OpCase& c : spec.cases) {
    for (Device device : devices())
      expect_identical(c, run_case(c, DType::f32, device), run_case(c, DType::f32, device),
                       std::string("again on ") + name(device));
    set_threads(3);
    const OpResult many = run_case(c, DType::f32, Device::cpu);
    set_threads(1);
    const OpResult one = run_case(c, DType::f32, Device::cpu);
    set_threads(before);
    expect_identical(c, one, many, "on one thread");
  }
}

// Checks that an operand of a different dtype or device is rejected, with a message that begins with the operation's
// name.
void mixed_operands(const OpSpec& spec) {
  const OpCase& c = spec.cases.front();
  const auto floating =
      std::count_if(c.operands.begin(), c.operands.end(), [](const Tensor& t) { return t.dtype() == DType::f64; });
  for (std::size_t odd = 0; odd < c.operands.size(); ++odd) {
    const auto run = [&](DType dtype, Device device) {
      return message_of([&] {
        Tape tape;
        std::vector<Var> vars;
        for (std::size_t k = 0; k < c.operands.size(); ++k)
          vars.push_back(tape.constant(k == odd ? c.operands[k].to(dtype).to(device) : c.operands[k]));
        c.f(vars);
      });
    };
    if (c.operands.size() < 2) continue;
    if (c.operands[odd].dtype() == DType::f64 && floating > 1) {
      EXPECT_EQ(run(DType::f32, Device::cpu).rfind(spec.name + ": ", 0), 0u) << where(c, odd) << " as f32";
    }
    if (cuda_available()) {
      EXPECT_EQ(run(c.operands[odd].dtype(), Device::cuda).rfind(spec.name + ": ", 0), 0u)
          << where(c, odd) << " on cuda";
    }
  }
}

void messages(const OpSpec& spec) {
  for (const OpError& error : spec.errors) {
    Tape tape;
    EXPECT_EQ(message_of([&] { error.body(tape); }), error.message);
  }
}

class OpTest : public ::testing::Test {
 public:
  OpTest(const OpSpec& spec, void (*body)(const OpSpec&)) : spec_(spec), body_(body) {}
  void TestBody() override { body_(spec_); }

 private:
  const OpSpec& spec_;
  void (*body_)(const OpSpec&);
};

}  // namespace

void in_other_thread_orders([[maybe_unused]] const std::function<void()>& body) {
#ifdef FOLDGRAD_EMULATE
  for (const emulation::Order order : {emulation::Order::descending, emulation::Order::shuffled}) {
    SCOPED_TRACE(order == emulation::Order::descending ? "threads in descending order" : "threads shuffled");
    const emulation::OrderScope scope(order);
    body();
  }
#endif
}

void register_op_tests() {
  static constexpr std::pair<const char*, void (*)(const OpSpec&)> kTests[] = {
      {"Gradients", gradients},
      {"OneValueAsTwoOperands", one_value_as_two_operands},
      {"Constants", constants},
      {"CudaEqualsCpu", cuda_equals_cpu},
      {"LowerPrecision", lower_precision},
      {"FastEqualsPlain", fast_equals_plain},
      {"ThreadOrders", thread_orders},
      {"Repeats", repeats},
      {"MixedOperands", mixed_operands},
      {"Messages", messages}};
  for (const OpSpec& spec : op_specs())
    for (const auto& [test, body] : kTests)
      ::testing::RegisterTest(spec.name.c_str(), test, nullptr, nullptr, __FILE__, __LINE__,
                              [&spec, body = body]() -> ::testing::Test* { return new OpTest(spec, body); });
}

}  // namespace foldgrad::testing
