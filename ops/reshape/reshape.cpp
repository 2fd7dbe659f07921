#include "ops/reshape/reshape.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
namespace foldgrad {
namespace {

struct ReshapeNode {
  const char* name() const { return "reshape"; }
  // Differentiates reshape [RES-1]: computes dx [RES-1].
  void backward(NodeGrads& grads) { grads.pass_dy(0); }  // [RES-1]
  void describe(Description& d) const {
    d.numbers = Description::Numbers::same;
    // A map passes if the channel axis survives, or is flattened with every axis after it.
    d.passes = [](const Graph& graph, const GraphUse& use, ChannelMap& map) -> std::string {
      const Shape &from = graph.shape(use), &to = graph.result_shape(use.node);
      ChannelPlace& place = map.place;
      const std::int64_t n = from[place.axis], inner = from.stride(place.axis);
      for (int axis = 0; axis < to.rank(); ++axis) {
        if (to[axis] == n && to.stride(axis) == inner) {
          place.axis = axis;
          return "";
        }
        if (to[axis] == n * inner && to.stride(axis) == 1) {
          place = {axis, place.offset * inner, place.repeat * inner};
          return "";
        }
      }
      return fmt::format("reshape from {} to {} splits up the channels", from, to);
    };
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) {
      return g.reshape(in[0], {in.result().begin() + 1, in.result().end()});
    };
  }
};

}  // namespace

Var reshape(const Var& x, const std::vector<std::int64_t>& sizes) {
  check_floating("reshape", "x", x.value());
  return x.tape().record(x.value().reshape(sizes), {x}, ReshapeNode{});
}

}  // namespace foldgrad
