#include "models/fold/propagate.h"

#include <fmt/format.h>

namespace foldgrad {
namespace {

constexpr const char* kPropagated = "";

std::int64_t inner_size(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int a = axis + 1; a < shape.rank(); ++a) n *= shape[a];
  return n;
}

// The axis stays one, or melts with all behind it.
std::string propagate_reshape(const Shape& from, const Shape& to, ChannelPlace& place) {
  const std::int64_t n = from[place.axis], inner = inner_size(from, place.axis);
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to[axis] == n && inner_size(to, axis) == inner) {
      place.axis = axis;
      return kPropagated;
    }
    if (to[axis] == n * inner && inner_size(to, axis) == 1) {
      place = {axis, place.offset * inner, place.repeat * inner};
      return kPropagated;
    }
  }
  return fmt::format("reshape from {} to {} tears the channels apart", from, to);
}

std::string propagate_permute(const std::vector<double>& axes, ChannelPlace& place) {
  for (std::size_t k = 0; k < axes.size(); ++k)
    if (int(axes[k]) == place.axis) {
      place.axis = int(k);
      return kPropagated;
    }
  return "permute loses the channels";
}

std::string propagate_concat(const Graph& graph, const GraphNode& node, int operand, ChannelPlace& place) {
  if (int(node.arguments[0]) != place.axis) return "concat puts other values beside it, along an axis of no channels";
  for (int k = 0; k < operand; ++k) place.offset += graph.values[node.operands[k]].shape[place.axis];
  return kPropagated;
}

// Row k of the result holds channels x height x width of a patch; padding is zeros.
std::string propagate_unfold(const GraphNode& node, const Shape& from, const Shape& to, PendingMap& w) {
  if (node.arguments[0] != 0 && w.map.adds()) return "unfold pads with zeros, where the map would give B";
  if (w.place.axis != 1) return "unfold cuts patches out of the channels";
  const std::int64_t patch = to[2] / from[1];
  w.place = {2, w.place.offset * patch, w.place.repeat * patch};
  return kPropagated;
}

std::string propagate_pool(const GraphNode& node, PendingMap& w) {
  if (w.place.axis != 2) return "mean_pool averages over the channels";
  if (node.operands.size() > 1 && w.map.adds()) return "mean_pool gives zeros for rows that are all masked, not B";
  w.place.axis = 1;
  return kPropagated;
}

// Every row of these weights sums to 1, whatever the numbers: they are rows of a softmax without a mask.
bool sums_to_one(const Graph& graph, int weights) {
  const std::int64_t steps = graph.values[weights].shape[-1];
  int producer = graph.producer(weights);
  while (producer >= 0 && graph.nodes[producer].kind == "reshape")
    producer = graph.producer(graph.nodes[producer].operands[0]);
  if (producer < 0 || graph.nodes[producer].kind != "softmax") return false;
  const GraphNode& softmax = graph.nodes[producer];
  return softmax.operands.size() == 1 && graph.values[softmax.result].shape[-1] == steps;
}

// sum_t w_t (A x_t + B) = A sum_t w_t x_t + B sum_t w_t
std::string propagate_weighted_pool(const Graph& graph, const GraphUse& use, PendingMap& w) {
  if (use.operand != 0) return "weighted_pool takes it as weights";
  if (w.place.axis != 2) return "weighted_pool sums over the channels";
  if (w.map.adds() && !sums_to_one(graph, graph.nodes[use.node].operands[1]))
    return "weighted_pool multiplies B by the sum of its weights, which is 1 for a softmax without a mask only";
  w.place.axis = 1;
  return kPropagated;
}

std::string propagate_mul(PendingMap& w) {
  if (w.map.centered) return "mul is different from channel to channel, and the map mixes them";
  return w.map.adds() ? "mul changes what B is to be; zeros would stay zeros, where the map gives B" : kPropagated;
}

}  // namespace

bool PendingMap::whole(const Shape& shape) const {
  return place == ChannelPlace{shape.rank() - 1} && map.channels() == shape[-1];
}

std::string propagate(const Graph& graph, const GraphUse& use, PendingMap& w) {
  const GraphNode& node = graph.nodes[use.node];
  const Shape &from = graph.values[node.operands[use.operand]].shape, &to = graph.values[node.result].shape;
  const std::string& kind = node.kind;
  if (kind == "cast") return kPropagated;
  if (kind == "reshape") return propagate_reshape(from, to, w.place);
  if (kind == "permute") return propagate_permute(node.arguments, w.place);
  if (kind == "concat") return propagate_concat(graph, node, use.operand, w.place);
  if (kind == "slice") return int(node.arguments[0]) == w.place.axis ? "slice cuts the channels" : kPropagated;
  if (kind == "gather" && use.operand == 0) {
    if (w.place.axis == 0) return "gather selects channels";
    w.place.axis += to.rank() - from.rank();
    return kPropagated;
  }
  if (kind == "unfold") return propagate_unfold(node, from, to, w);
  if (kind == "mean_pool") return propagate_pool(node, w);
  if (kind == "weighted_pool") return propagate_weighted_pool(graph, use, w);
  if (kind == "mul") return propagate_mul(w);
  if (kind == "scale") {
    for (double& b : w.map.B) b *= node.arguments[0];
    return kPropagated;
  }
  if (kind == "dropout") return "dropout was recorded, so this is a forward pass in training";
  return kind + " is no linear layer";
}

}  // namespace foldgrad
