#include "engine/tape.h"

#include "engine/memory.h"
#include "engine/node_grads.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// The elementwise product y = a b, in f64 on the CPU. It is defined here, so testing the tape does not need ops/.
struct ProductNode {
  Tensor a, b;
  const char* name() const { return "product"; }
  void backward(NodeGrads& grads) {
    const double* dy = grads.dy().data<double>();
    const GradOut<double> da = grads.out<double>(0), db = grads.out<double>(1);
    for (std::int64_t i = 0; i < a.size(); ++i) {
      if (da) da.put(i, dy[i] * b.data<double>()[i]);
      if (db) db.put(i, dy[i] * a.data<double>()[i]);
    }
  }
  void describe(Description&) const {}
};

Var product(const Var& a, const Var& b) {
  const Tensor y = Tensor::empty(a.shape(), DType::f64);
  for (std::int64_t i = 0; i < y.size(); ++i)
    y.data<double>()[i] = a.value().data<double>()[i] * b.value().data<double>()[i];
  return a.tape().record(y, {a, b}, ProductNode{.a = a.value(), .b = b.value()});
}

// The sum y = a + b + ..., in the shape of a. The backward pass only passes dy on.
struct SumNode {
  int terms;
  const char* name() const { return "sum"; }
  void backward(NodeGrads& grads) {
    for (int k = 0; k < terms; ++k) grads.pass_dy(k);
  }
  void describe(Description&) const {}
};

Var sum(const std::vector<Var>& terms) {
  const Tensor y = terms[0].value().clone();
  for (std::size_t k = 1; k < terms.size(); ++k) accumulate(y, terms[k].value().reshape(y.shape()));
  return terms[0].tape().record(y, terms, SumNode{.terms = int(terms.size())});
}

Tensor scalars(std::vector<double> values) { return Tensor::of<double>({std::int64_t(values.size())}, values); }
std::vector<double> values(const Tensor& t) { return t.values<double>(); }

TEST(Tape, AddsUpTheUsesOfAValue) {
  Tape tape;
  const Var x = tape.variable(scalars({3}));
  const Var square = product(x, x);                 // both operands are the same value
  tape.backward(product(square, x), scalars({1}));  // x^3
  EXPECT_EQ(values(tape.grad(x)), std::vector<double>{27});
}

TEST(Tape, BackwardAddsToGradientsThatAreThere) {
  Tape tape;
  Parameter p{.name = "x", .value = scalars({2, 3}), .grad = scalars({100, 200}), .has_grad = true};
  const Var x = tape.parameter(p), y = tape.variable(scalars({5, 7}));
  tape.backward(product(x, y), scalars({1, 10}));
  EXPECT_EQ(values(tape.grad(x)), (std::vector<double>{105, 270}));
  EXPECT_EQ(values(tape.grad(y)), (std::vector<double>{2, 30}));
}

TEST(Tape, ParametersKeepTheirGradientUntilTheyAreTold) {
  Parameter weight{"weight", scalars({4})};
  Tape tape;
  for (double want : {3., 6., 3.}) {
    if (want == 3.) weight.zero_grad();
    const Var w = tape.parameter(weight);
    EXPECT_EQ(w.id(), tape.parameter(weight).id());
    EXPECT_EQ(tape.parameter_of(w.id()), &weight);
    tape.backward(product(w, tape.constant(scalars({3}))), scalars({1}));
    EXPECT_EQ(values(weight.grad), std::vector<double>{want});
    EXPECT_EQ(values(tape.grad(w)), std::vector<double>{want});
    tape.clear();
  }
}

TEST(Tape, AGradientOfAnotherTypeIsReplaced) {
  Parameter p{.name = "x", .value = scalars({2}), .grad = Tensor::zeros({1}, DType::f32)};  // the value used to be f32
  Tape tape;
  tape.backward(product(tape.parameter(p), tape.variable(scalars({5}))), scalars({1}));
  EXPECT_EQ(p.grad.dtype(), DType::f64);
  EXPECT_EQ(p.grad.item(), 5);
}

// The operation y = p in bf16. For any dy the gradient is 1 + 2^-12, which bf16 rounds to 1. With `exact`, the backward
// pass writes the gradient in f32, otherwise in bf16.
struct ConstantGradientNode {
  bool exact;
  const char* name() const { return "constant gradient"; }
  void backward(NodeGrads& grads) {
    constexpr float kGradient = 1 + 0x1p-12f;
    if (exact)
      grads.out<float>(0).put(0, kGradient);
    else
      grads.out<bf16>(0).put(0, kGradient);
  }
  void describe(Description&) const {}
};

TEST(Tape, RoundedParametersHaveExactGradients) {
  Parameter weight{"weight", Tensor::of<float>({1}, {3.001f})};
  const Tensor rounded = weight.value.to(DType::bf16), dy = Tensor::of<bf16>({1}, {bf16(1.0f)});
  Tape tape;
  float want = 0;
  for (bool exact : {true, false, true}) {
    const Var w = tape.parameter(weight, rounded);
    EXPECT_EQ(w.id(), tape.parameter(weight, rounded).id());
    EXPECT_NE(w.id(), tape.parameter(weight).id());
    EXPECT_EQ(tape.parameter_of(w.id()), &weight);
    EXPECT_EQ(w.value().raw(), rounded.raw());
    tape.backward(tape.record(rounded.clone(), {w}, ConstantGradientNode{exact}), dy.clone());
    want += exact ? 1 + 0x1p-12f : 1;
    EXPECT_EQ(weight.grad.values<float>(), std::vector<float>{want});
    tape.clear();
  }
  // A gradient is also exact if an operation passes dy on, even to a parameter that it reads twice.
  weight.zero_grad();
  const Var w = tape.parameter(weight, rounded);
  tape.backward(tape.record(rounded.clone(), {w, w}, SumNode{.terms = 2}), dy.clone());
  EXPECT_EQ(weight.grad.values<float>(), std::vector<float>{2});
  EXPECT_EQ(message_of([&] { tape.parameter(weight, Tensor::zeros({2}, DType::bf16)); }),
            "tape: weight must be f32 [2] on cpu (its rounding is bf16 [2] on cpu), got f32 [1] on cpu");
  EXPECT_EQ(message_of([&] { tape.parameter(weight, Tensor::zeros({1}, DType::f64)); }),
            "tape: the rounding must be bf16 [1] on cpu (weight is f32 [1] on cpu), got f64 [1] on cpu");
}

// In a + b + a, the memory of dy may become the gradient of only one operand.
TEST(Tape, PassingDyOnNeverLetsTwoGradientsShareMemory) {
  Tape tape;
  const Var a = tape.variable(scalars({1, 2})), b = tape.variable(Tensor::of<double>({2, 1}, {3, 4}));
  const Var s = sum({a, b, a});
  const Tensor dy = scalars({10, 20});
  tape.backward(product(s, s), dy);  // d/ds s^2 = 2 s
  EXPECT_EQ(values(tape.grad(a)), (std::vector<double>{2 * 2 * 5 * 10., 2 * 2 * 8 * 20.}));
  EXPECT_EQ(values(tape.grad(b)), (std::vector<double>{2 * 5 * 10., 2 * 8 * 20.}));
  EXPECT_EQ(tape.grad(b).shape(), (Shape{2, 1}));
  EXPECT_FALSE(tape.grad(a).shares_storage_with(tape.grad(b)));
  EXPECT_EQ(values(dy), (std::vector<double>{10, 20}));  // dy still belongs to the caller
}

TEST(Tape, PassingDyOnLeavesItWholeForTheNextOperand) {
  Parameter p{"a", scalars({1, 2})};
  Tape tape;
  const Var a = tape.parameter(p), b = tape.variable(scalars({3, 4}));
  tape.backward(sum({a, a, b}), scalars({10, 20}));
  EXPECT_EQ(values(p.grad), (std::vector<double>{20, 40}));
  EXPECT_EQ(values(tape.grad(b)), (std::vector<double>{10, 20}));
}

TEST(Tape, TheCallersDyIsNeitherChangedNorKept) {
  Tape tape;
  const Var a = tape.variable(scalars({1, 2})), b = tape.variable(scalars({3, 4}));
  const Tensor dy = scalars({10, 20});
  tape.backward(sum({a, b, a}), dy);
  EXPECT_EQ(values(tape.grad(a)), (std::vector<double>{20, 40}));
  EXPECT_EQ(values(tape.grad(b)), (std::vector<double>{10, 20}));
  EXPECT_EQ(values(dy), (std::vector<double>{10, 20}));
  EXPECT_FALSE(tape.grad(a).shares_storage_with(dy) || tape.grad(b).shares_storage_with(dy));
}

TEST(Tape, ADyThatIsGivenAwayBecomesAGradient) {
  for (bool recorded : {true, false}) {
    Tape tape;
    const Var x = tape.variable(scalars({1, 2}));
    Tensor dy = scalars({10, 20});
    const void* memory = dy.raw();
    tape.backward(recorded ? sum({x, tape.constant(scalars({5, 6}))}) : x, std::move(dy));
    EXPECT_EQ(tape.grad(x).raw(), memory);
    EXPECT_EQ(values(tape.grad(x)), (std::vector<double>{10, 20}));
  }
}

TEST(Tape, AnExternalDyIsNeitherChangedNorKept) {
  for (const bool recorded : {false, true}) {
    std::vector<double> dy{10, 20};
    Tape tape;
    const Var x = tape.variable(scalars({1, 2})), twice = product(x, tape.constant(scalars({2, 2})));
    tape.backward(recorded ? sum({x, twice}) : x,  // adds the second contribution to x's gradient in place
                  Tensor::external(dy.data(), {2}, DType::f64, std::make_shared<int>()));
    EXPECT_EQ(values(tape.grad(x)), (recorded ? std::vector<double>{30, 60} : dy));
    accumulate(tape.grad(x), scalars({1, 1}));
    EXPECT_EQ(dy, (std::vector<double>{10, 20}));
  }
}

TEST(Tape, ConstantsAreNotRecorded) {
  Tape tape;
  const Var c = tape.constant(scalars({2}));
  product(c, c);
  EXPECT_TRUE(tape.nodes().empty());
  product(c, tape.variable(scalars({2})));
  ASSERT_EQ(tape.nodes().size(), 1u);
  EXPECT_STREQ(tape.nodes()[0]->name(), "product");
}

TEST(Tape, WithRecordingOffValuesAreFreedAtOnce) {
  Tape tape(/*recording=*/false);
  const auto before = memory::statistics(Device::cpu).current;
  for (int i = 0; i < 100; ++i)
    product(tape.variable(Tensor::zeros({1000}, DType::f64)), tape.constant(Tensor::zeros({1000}, DType::f64)));
  EXPECT_EQ(memory::statistics(Device::cpu).current, before);
  EXPECT_TRUE(tape.nodes().empty());
}

// The graph is too deep for recursion.
TEST(Tape, DeepGraphsRunBackwardAndGiveTheirMemoryBack) {
  const auto before = memory::statistics(Device::cpu).current;
  Tape tape;
  const Var x = tape.variable(scalars({1})), one = tape.constant(scalars({1}));
  Var y = x;
  for (int i = 0; i < 300'000; ++i) y = product(y, one);
  EXPECT_EQ(tape.nodes().size(), 300'000u);
  tape.backward(y, scalars({5}));
  EXPECT_EQ(values(tape.grad(x)), std::vector<double>{5});
  tape.clear();
  // The remaining memory belongs to x, one and y.
  EXPECT_EQ(memory::statistics(Device::cpu).current, before + 3 * 256);
}

TEST(Tape, GradientsOfResultsAreReleasedWhileBackwardRuns) {
  Tape tape;
  Var y = tape.variable(Tensor::zeros({10000}, DType::f64));
  const Var c = tape.constant(Tensor::zeros({10000}, DType::f64));
  for (int i = 0; i < 20; ++i) y = product(y, c);
  const auto before = memory::statistics(Device::cpu);
  memory::reset_peak(Device::cpu);
  tape.backward(y, Tensor::zeros({10000}, DType::f64));
  // Only two of the 21 gradients exist at a time: those of a node's result and its operand.
  EXPECT_LE(memory::statistics(Device::cpu).peak, before.current + 4 * 10000 * sizeof(double));
}

TEST(Tape, ScopesNameTheNodes) {
  Tape tape;
  const Var x = tape.variable(scalars({1}));
  {
    const Tape::Scope encoder(tape, "encoder");
    const Tape::Scope layer(tape, "layers.0");
    product(x, x);
  }
  product(x, x);
  EXPECT_EQ(tape.nodes()[0]->scope(), "encoder.layers.0");
  EXPECT_EQ(tape.nodes()[1]->scope(), "");
}

TEST(Tape, ShowsResultsAndTheirGradientsToAnObserver) {
  std::string seen;
  const auto observer = [&](const char* what) {
    return [&seen, what](const Node& node, const Tensor& t) {
      seen += fmt::format("{} {} {} {}; ", node.scope(), node.name(), what, t.item());
    };
  };
  Tape tape;
  tape.observe(observer("gives"), observer("gets"));
  const Var x = tape.variable(scalars({3}));
  const Tape::Scope scope(tape, "decoder");
  tape.backward(product(product(x, x), x), scalars({2}));
  EXPECT_EQ(seen,
            "decoder product gives 9; decoder product gives 27; decoder product gets 2; decoder product gets 6; ");
}

TEST(Tape, SaysWhatIsWrong) {
  Tape tape, other;
  const Var x = tape.variable(scalars({1, 2})), foreign = other.variable(scalars({1, 2}));
  EXPECT_EQ(message_of([&] { product(x, foreign); }),
            "product: operand 1 must be on this operation's tape, got one on another tape");
  EXPECT_EQ(message_of([&] { tape.backward(x); }), "tape: backward without dy needs a y with one element, got [2]");
  EXPECT_EQ(message_of([&] { tape.backward(x, scalars({1})); }),
            "tape: dy must be f64 [2] on cpu (y is f64 [2] on cpu), got f64 [1] on cpu");
  EXPECT_EQ(message_of([&] { tape.backward(tape.constant(scalars({1}))); }),
            "tape: backward needs a value that depends on a variable or a parameter");
  EXPECT_EQ(message_of([&] { tape.variable(Tensor::zeros({1}, DType::i64)); }),
            "tape: only f32, f64 and bf16 have gradients, got a variable of i64");
  EXPECT_EQ(message_of([&] { tape.constant(Tensor()); }), "tape: a recorded value must be a defined tensor");
  const Var y = product(x, x);
  EXPECT_EQ(message_of([&] { tape.grad(y); }),
            "tape: only variables and parameters have a grad(); results of operations do not");
  tape.backward(y, scalars({1, 1}));
  EXPECT_EQ(message_of([&] {
              tape.backward(y, scalars({1, 1}));
            }),
            "tape: backward has already run on this recording; record it again");
  EXPECT_EQ(message_of([&] { product(x, x); }), "product: backward has run; clear the tape before recording again");
  tape.clear();
  EXPECT_EQ(message_of([&] { product(x, x); }), "product: operand 0 was recorded before the tape was cleared");
  EXPECT_EQ(message_of([&] { tape.grad(x); }), "tape: grad() needs a value from the tape's current recording");
}

}  // namespace
}  // namespace foldgrad::testing
