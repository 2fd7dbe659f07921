#include "models/inference/layers.h"

namespace foldgrad {
namespace {

// Weights and biases of several layers, stacked, so that one product computes them all.
template <class T>
PackedLinear packed(std::initializer_list<const LinearLayer*> layers, std::optional<Activation> activation = {}) {
  const auto stacked = [&](Parameter LinearLayer::*part) {
    const Shape& one = ((*layers.begin())->*part).value.shape();
    std::vector<std::int64_t> sizes = one.sizes();
    sizes[0] *= std::int64_t(layers.size());
    const Tensor all = Tensor::empty(Shape(sizes), ((*layers.begin())->*part).value.dtype());
    std::int64_t row = 0;
    for (const LinearLayer* layer : layers) {
      all.slice(row, row + one[0]).copy_from((layer->*part).value);
      row += one[0];
    }
    return all;
  };
  return {stacked(&LinearLayer::weight),
          stacked(&LinearLayer::bias),
          {.in = dtype_of<T>, .out = dtype_of<T>, .activation = activation}};
}

}  // namespace

template <class T>
void InferenceWorkspace<T>::reserve(std::int64_t rows, const BlockConfig& config) {
  if (normalized.defined() && normalized.shape()[0] >= rows) return;
  const auto of = [rows](std::int64_t columns) { return Tensor::empty({rows, columns}, dtype_of<T>); };
  normalized = of(config.width), attended = of(config.width), query = of(config.width), hidden = of(config.ffn_width);
}

template <class T>
InferenceSublayer<T>::InferenceSublayer(Sublayer& sublayer, bool pre_norm)
    : columns_(sublayer.norm->channels()),
      pre_norm_(pre_norm),
      out_(sublayer.out.weight.value, sublayer.out.bias.value,
           {.in = dtype_of<T>, .out = dtype_of<compute_t<T>>, .add = pre_norm ? 1 : sublayer.norm->residual_scale()}),
      norm_(sublayer.norm.get(), columns_),
      residual_(sublayer.residual.get(), columns_) {}

template <class T>
InferenceLayer<T>::InferenceLayer(TransformerLayer& layer, const BlockConfig& config)
    : qkv(packed<T>({&layer.self_attention.q, &layer.self_attention.k, &layer.self_attention.v})),
      self_attention(layer.self_attention.sublayer, config.pre_norm),
      fc1_(packed<T>({&layer.feed_forward.fc1}, config.activation_function())),
      feed_forward_(layer.feed_forward.sublayer, config.pre_norm) {
  if (!layer.cross_attention) return;
  q = packed<T>({&layer.cross_attention->q});
  kv = packed<T>({&layer.cross_attention->k, &layer.cross_attention->v});
  cross_attention.emplace(layer.cross_attention->sublayer, config.pre_norm);
}

template <class T>
void InferenceLayer<T>::feed_forward(const Segments& rows, compute_t<T>* x, InferenceWorkspace<T>& workspace) const {
  T* hidden = workspace.hidden.template data<T>();
  feed_forward_.run(rows, x, workspace, [&](const T* in) {
    fc1_(rows.rows(), in, hidden);
    return hidden;
  });
}

template struct InferenceWorkspace<float>;
template struct InferenceWorkspace<double>;
template struct InferenceWorkspace<bf16>;
template class InferenceSublayer<float>;
template class InferenceSublayer<double>;
template class InferenceSublayer<bf16>;
template struct InferenceLayer<float>;
template struct InferenceLayer<double>;
template struct InferenceLayer<bf16>;

}  // namespace foldgrad
