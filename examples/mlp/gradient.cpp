// A minimal program that computes y = sum of relu(x W^T) and the gradient of y with respect to W.
#include <cstdio>

#include "ops/activation/activation.h"
#include "ops/linear/linear.h"
#include "ops/reduce/reduce.h"

int main() {
  using namespace foldgrad;
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, -4});
  Parameter W{"W", Tensor::of<float>({1, 2}, {1, 1})};
  Tape tape;
  const Var y = sum(relu(linear(tape.constant(x), tape.parameter(W))));
  tape.backward(y);
  std::printf("y = %g, dW = (%g, %g)\n", y.value().item(), W.grad.data<float>()[0], W.grad.data<float>()[1]);
}
