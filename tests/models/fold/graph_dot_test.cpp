#include "models/fold/graph_dot.h"

#include <gtest/gtest.h>

#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// y = relu(x) + tanh(relu(x)); x, which nothing computes, has no arrow.
TEST(GraphDot, ArrowsLeadFromWhatComputesAValueToWhatReadsIt) {
  Tape tape;
  const Var x = tape.variable(randn({2, 3}, 1));
  const Var a = relu(x);
  const Var b = tanh(a);
  const Var y = add(a, b);
  const Graph graph = graph_of(tape, {y});
  const std::string text = graph_dot({{"one", graph, {}}, {"two", graph, {}}});
  std::vector<std::string> arrows;
  for (std::size_t at = 0; (at = text.find(" -> ", at)) != std::string::npos; ++at) {
    const std::size_t begin = text.rfind("    ", at) + 4;
    arrows.push_back(text.substr(begin, text.find('\n', at) - begin));
  }
  EXPECT_EQ(arrows, (std::vector<std::string>{"g0n0 -> g0n1", "g0n0 -> g0n2", "g0n1 -> g0n2", "g1n0 -> g1n1",
                                              "g1n0 -> g1n2", "g1n1 -> g1n2"}));
}

}  // namespace
}  // namespace foldgrad::testing
