#include "models/blocks/joint_layers.h"

#include "ops/linear/joint_linear.h"
#include "ops/linear/side_by_side.h"

namespace foldgrad {
namespace {

void move_side_by_side(const std::vector<Parameter*>& parameters) {
  std::vector<Shape> shapes;
  for (const Parameter* p : parameters) {
    if (p->value.bytes() % 64 != 0) return;
    shapes.push_back(p->value.shape());
  }
  const Tensor& like = parameters[0]->value;
  std::vector<Tensor> places = empty_side_by_side(shapes, like.dtype(), like.device());
  const std::vector<Tensor> gradients = empty_side_by_side(shapes, like.dtype(), like.device());
  for (std::size_t k = 0; k < places.size(); ++k) {
    places[k].copy_from(parameters[k]->value);
    parameters[k]->value = places[k];
    parameters[k]->grad = gradients[k];
  }
}

}  // namespace

void lay_side_by_side(const std::vector<LinearLayer*>& layers) {
  if (layers.empty() || layers[0]->weight.value.device() != Device::cuda) return;
  std::vector<Parameter*> weights, biases;
  for (LinearLayer* layer : layers) {
    weights.push_back(&layer->weight);
    biases.push_back(&layer->bias);
  }
  move_side_by_side(weights);
  move_side_by_side(biases);
}

std::optional<Var> joint_layers(const std::vector<LinearLayer*>& layers, const Var& x, const ForwardPass& pass) {
  if (layers.empty() || x.device() != Device::cuda || !pass.training) return {};
  std::vector<Var> weights, biases;
  std::vector<Tensor> weight_values, bias_values;
  for (LinearLayer* layer : layers) {
    weights.push_back(layer->matrix(pass));
    biases.push_back(pass.use(layer->bias));
    weight_values.push_back(weights.back().value());
    bias_values.push_back(biases.back().value());
  }
  if (!side_by_side(weight_values) || !side_by_side(bias_values)) return {};
  return joint_linear(x, weights, biases);
}

}  // namespace foldgrad
