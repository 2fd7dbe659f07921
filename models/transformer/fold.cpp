// The configuration of a folded Transformer. With fixnorm the tables of the folded model hold their rows
// divided by their lengths, and fixnorm is off; an output projection that was tied gets a table of its own with
// Tied::untie, and a bias with B != 0.
#include <set>

#include "models/fold/model.h"
#include "models/transformer/transformer.h"

namespace foldgrad {

std::unique_ptr<Model> Transformer::alike(DType dtype, Device device) const {
  return std::make_unique<Transformer>(config_, std::nullopt, dtype, device);
}

std::unique_ptr<Model> Transformer::foldable() {
  if (!config_.fixnorm) return nullptr;
  TransformerConfig config = config_;
  config.fixnorm = false;
  auto plain = std::make_unique<Transformer>(config, std::nullopt, dtype(), device());
  plain->copy_from(*this);
  // A shared table once: dividing again would round again.
  for (Parameter* table : std::set{&plain->source_table(), &plain->target_table(), &plain->output_table()})
    table->value.copy_from(rows_of(*table));
  return plain;
}

std::unique_ptr<Model> Transformer::folded(const FoldedGraph& graph) const {
  TransformerConfig config = config_;
  set_normalizers_left(config, *this, graph);
  if (graph.created.count("decoder.output_projection.weight"))
    config.share_embeddings = config.share_embeddings == "all" ? "inputs" : "none";
  if (graph.created.count("decoder.output_projection.bias")) config.output_bias = true;
  return std::make_unique<Transformer>(config, std::nullopt, dtype(), device());
}

}  // namespace foldgrad
