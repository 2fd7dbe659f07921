#include "ops/linear/joint_linear.h"

#include <random>

#include "ops/linear/linear.h"
#include "ops/linear/side_by_side.h"
#include "tests/harness/op_spec.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/launch_counts.h"
#endif

namespace foldgrad::testing {
namespace {

OpCase joint_case(const Shape& x, const std::vector<std::int64_t>& outs, bool large = false) {
  const std::int64_t in = x[-1];
  const std::size_t layers = outs.size();
  OpCase c{.label = fmt::format("{} to {} layers, the last of {}", x, layers, outs.back()),
           .operands = {randn(x, 1)},
           .f =
               [layers](const std::vector<Var>& v) {
                 const auto first = v.begin() + 1, middle = first + std::ptrdiff_t(layers);
                 return joint_linear(v[0], {first, middle}, {middle, v.end()});
               },
           .large = large};
  for (std::int64_t out : outs) c.operands.push_back(randn({out, in}, 2 + unsigned(c.operands.size())));
  for (std::int64_t out : outs) c.operands.push_back(randn({out}, 2 + unsigned(c.operands.size())));
  return c;
}

Var zeros(Tape& t, Shape shape) { return t.constant(Tensor::zeros(std::move(shape), DType::f32)); }

const RegisterOp kJointLinear({
    .name = "joint_linear",
    .cases = {joint_case({3, 2}, {4, 1}), joint_case({2, 2, 3}, {2, 2, 2}), joint_case({1, 1}, {1}),
              joint_case({5}, {3, 2}), joint_case({0, 2}, {3, 1}), joint_case({2, 0}, {3, 3}),
              joint_case({3, 2}, {0, 2}), joint_case({40, 7}, {33, 8, 31}, true)},
    .errors = {{"joint_linear: there must be as many biases as weights, and at least one, got 0 weights and 0 biases",
                [](Tape& t) {
                  joint_linear(zeros(t, {2, 3}), {}, {});
                }},
               {"joint_linear: there must be as many biases as weights, and at least one, got 1 weights and 0 biases",
                [](Tape& t) {
                  joint_linear(zeros(t, {2, 3}), {zeros(t, {4, 3})}, {});
                }},
               {"joint_linear: weight must be f32 [4, 3] on cpu, to go with x, which is f32 [2, 3] on cpu, got "
                "f32 [4, 2] on cpu",
                [](Tape& t) {
                  joint_linear(zeros(t, {2, 3}), {zeros(t, {4, 2})}, {zeros(t, {4})});
                }},
               {"joint_linear: bias must be f32 [4] on cpu, to go with x, which is f32 [2, 3] on cpu, got f32 [3] on "
                "cpu",
                [](Tape& t) {
                  joint_linear(zeros(t, {2, 3}), {zeros(t, {4, 3})}, {zeros(t, {3})});
                }}},
    // Sums of up to 72 products.
    .f32_roundoffs = 400,
});

constexpr std::int64_t kIn = 8, kRows = 5, kOuts[] = {16, 8, 24};
constexpr int kLayers = 3;

// Small whole numbers, whose sums of products are exact in f32 in any order, and which bf16 has.
Tensor whole_numbers(const Shape& shape, unsigned seed, DType dtype, Device device) {
  std::mt19937 random(seed);
  std::vector<float> v(shape.elements());
  for (float& x : v) x = float(int(random() % 7) - 3);
  return Tensor::of(shape, v, device).to(dtype);
}

// Parameters of f32 and the values with which a tape has them, both side by side: weights, then biases. With
// `gradients` there are places for gradients that lie so, too.
struct Layers {
  std::vector<Parameter> parameters;
  std::vector<Tensor> values;

  Layers(DType dtype, Device device, bool gradients) {
    for (bool weights : {true, false}) {
      std::vector<Shape> shapes;
      for (std::int64_t out : kOuts) shapes.push_back(weights ? Shape{out, kIn} : Shape{out});
      std::vector<Tensor> places = empty_side_by_side(shapes, DType::f32, device);
      const std::vector<Tensor> grads = empty_side_by_side(shapes, DType::f32, device);
      std::vector<Tensor> rounded = empty_side_by_side(shapes, dtype, device);
      for (int k = 0; k < kLayers; ++k) {
        const unsigned seed = unsigned(parameters.size()) + 1;
        places[k].copy_from(whole_numbers(shapes[k], seed, DType::f32, device));
        rounded[k].copy_from(whole_numbers(shapes[k], seed, dtype, device));
        parameters.push_back({fmt::format("p{}", seed), places[k]});
        if (gradients) parameters.back().grad = grads[k];
        values.push_back(dtype == DType::f32 ? places[k] : rounded[k]);
      }
    }
  }
  std::vector<Var> on(Tape& tape) {
    std::vector<Var> vars;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const bool rounded = values[k].dtype() != DType::f32;
      vars.push_back(rounded ? tape.parameter(parameters[k], values[k]) : tape.parameter(parameters[k]));
    }
    return vars;
  }
};

Tensor columns_of(const Tensor& y, std::int64_t begin, std::int64_t count) {
  const std::vector<float> all = y.to(DType::f32).to(Device::cpu).values<float>();
  const std::int64_t width = y.shape()[1];
  std::vector<float> part;
  for (std::int64_t r = 0; r < y.shape()[0]; ++r)
    part.insert(part.end(), &all[r * width + begin], &all[r * width + begin] + count);
  return Tensor::of({y.shape()[0], count}, part, y.device()).to(y.dtype());
}

// One layer after the other, with their columns of dy; adds to the parameters' gradients, and returns their y and dx.
std::vector<Tensor> run_apart(Layers& layers, const Tensor& x, const Tensor& dy) {
  std::vector<Tensor> results;
  std::int64_t begin = 0;
  for (int k = 0; k < kLayers; ++k) {
    Tape tape;
    const std::vector<Var> p = layers.on(tape);
    const Var in = tape.variable(x), y = linear(in, p[k], p[kLayers + k]);
    tape.backward(y, columns_of(dy, begin, kOuts[k]));
    results.push_back(y.value());
    results.push_back(tape.grad(in));
    begin += kOuts[k];
  }
  return results;
}

struct Joint {
  Tensor y, dx;
};
Joint run_joint(Layers& layers, const Tensor& x, const Tensor& dy) {
  Tape tape;
  const std::vector<Var> p = layers.on(tape);
  const Var in = tape.variable(x);
  const Var y = joint_linear(in, {p.begin(), p.begin() + kLayers}, {p.begin() + kLayers, p.end()});
  tape.backward(y, dy.clone());
  return {y.value(), tape.grad(in)};
}

void expect_equal(const std::vector<Tensor>& apart, const Joint& joint) {
  std::int64_t begin = 0;
  std::vector<double> dx(std::size_t(kRows * kIn));
  for (int k = 0; k < kLayers; ++k) {
    EXPECT_TRUE(identical(columns_of(joint.y, begin, kOuts[k]).to(Device::cpu), apart[2 * k].to(Device::cpu)));
    const std::vector<double> share = apart[2 * k + 1].to(DType::f64).values<double>();
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += share[i];
    begin += kOuts[k];
  }
  EXPECT_EQ(joint.dx.to(DType::f64).values<double>(), dx);
}

class JointLinear : public ::testing::TestWithParam<std::tuple<Device, DType>> {
 protected:
  Device device = std::get<0>(GetParam());
  DType dtype = std::get<1>(GetParam());
  Tensor x = whole_numbers({kRows, kIn}, 20, dtype, device);
  Tensor dy = whole_numbers({kRows, 48}, 21, dtype, device);
  Layers apart{dtype, device, false}, joint{dtype, device, true};

  void expect_equal_gradients() const {
    for (std::size_t k = 0; k < apart.parameters.size(); ++k)
      EXPECT_TRUE(identical(joint.parameters[k].grad.to(Device::cpu), apart.parameters[k].grad.to(Device::cpu)))
          << apart.parameters[k].name;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, JointLinear,
                         ::testing::Combine(::testing::ValuesIn(devices()), ::testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + name(std::get<1>(info.param));
                         });

TEST_P(JointLinear, LIN_5_IsTheLayersApart) {
  for (int times = 0; times < 2; ++times) {  // gradients are set, then added to
    const std::vector<Tensor> want = run_apart(apart, x, dy);
    expect_equal(want, run_joint(joint, x, dy));
    expect_equal_gradients();
  }
}

TEST_P(JointLinear, GradientsThatLieApartAreAddedTo) {
  joint = Layers(dtype, device, false);
  for (int times = 0; times < 2; ++times) {
    run_apart(apart, x, dy), run_joint(joint, x, dy);
    expect_equal_gradients();
  }
}

TEST_P(JointLinear, AGradientThatIsThereAloneIsAddedTo) {
  for (Layers* layers : {&apart, &joint}) {
    run_joint(*layers, x, dy);
    for (std::size_t k = 0; k < layers->parameters.size(); ++k) layers->parameters[k].has_grad = k == 1;
  }
  run_apart(apart, x, dy), run_joint(joint, x, dy);
  expect_equal_gradients();
}

#ifdef FOLDGRAD_EMULATE
class JointLinearLaunches : public JointLinear {};
INSTANTIATE_TEST_SUITE_P(Cuda, JointLinearLaunches,
                         ::testing::Values(std::tuple(Device::cuda, DType::f32), std::tuple(Device::cuda, DType::bf16)),
                         [](const auto& info) { return std::string(name(std::get<1>(info.param))); });

TEST_P(JointLinearLaunches, AreThreeProducts) {
  const emulation::LaunchCounts counts;
  run_joint(joint, x, dy);
  EXPECT_EQ(counts.table(), "3  gemm: tiled\n1  late totals of columns\n1  totals of columns\n");
}
#endif

}  // namespace
}  // namespace foldgrad::testing
