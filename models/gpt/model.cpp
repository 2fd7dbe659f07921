// A Gpt as other code sees every Model: its lists, inputs made up for a check, copies, and what folding needs.
#include "models/fold/model.h"

#include <algorithm>
#include <random>

#include "models/gpt/gpt.h"

namespace foldgrad {

void Gpt::list(ModelParts& parts) {
  parts.add(embeddings_);
  parts.add(positions_);
  for (TransformerLayer& layer : layers_) parts.add(layer.parameters(), layer.normalizers());
  parts.add(norm_);
  parts.add(output_);
  parts.add(output_bias_);
  parts.positions = {&positions_};
  parts.output = {&output_table()};
  if (config_.output_bias) parts.output.push_back(&output_bias_);
}

Tensor Gpt::placed(const Tensor& logits, const NamedTensors& inputs) const {
  const Shape& ids = inputs.at("ids").shape();
  return logits.to(Device::cpu).reshape({ids[0], ids[1], config_.vocabulary});
}

NamedTensors Gpt::smallest_inputs() const {
  const Tensor ids = Tensor::zeros({1, std::min<std::int64_t>(2, config_.context)}, DType::i64);
  return {{"ids", ids}, {"target", ids}};
}

NamedTensors Gpt::random_inputs(std::uint64_t seed) const {
  constexpr std::int64_t kSequences = 8, kTokens = 16;
  const std::int64_t T = std::min(config_.context, kTokens);
  std::mt19937_64 random(seed);
  const Tensor ids = Tensor::empty({kSequences, T}, DType::i64), target = ids.clone();
  for (const Tensor& t : {ids, target})
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.data<std::int64_t>()[i] = std::int64_t(random() % std::uint64_t(config_.vocabulary));
  return to({{"ids", ids}, {"target", target}}, device());
}

// An output projection that was tied gets a table of its own with Tied::untie, and a bias with B != 0.
std::unique_ptr<Model> Gpt::alike(DType dtype, Device device, const FoldedGraph* folded) const {
  GptConfig config = config_;
  if (folded) {
    set_normalizers_left(config, *this, *folded);
    if (folded->created.count("lm_head.weight")) config.tied = false;
    if (folded->created.count("lm_head.bias")) config.output_bias = true;
  }
  return std::make_unique<Gpt>(config, std::nullopt, dtype, device);
}

}  // namespace foldgrad
