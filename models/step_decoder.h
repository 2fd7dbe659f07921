// The decoder of a Transformer, one token at a time: keys and values of earlier tokens are kept, not computed again.
// On the CPU, in inference mode.
//
//   Rows are hypotheses. Each step takes, for every row, its newest token and its parent, the row of the step before
//   that it continues: a parent may have several children, or none. Nothing is copied when rows are chosen anew; each
//   row only knows which row of every earlier step it descends from.
#pragma once
#include "models/transformer.h"

namespace foldgrad {

class StepDecoder {
 public:
  // Encodes the sources [B, S]. Parents of the first step are sentences, 0 ... B - 1.
  // Throws std::invalid_argument for a model on another device, for one with a normalizer whose statistics are over
  // the tokens of a sentence, and for what Transformer::encode refuses.
  StepDecoder(Transformer& model, const Tensor& source, const Tensor& source_mask);

  // Logits [rows, target_vocabulary] of what follows, in f64 for a model of f64, otherwise f32.
  // Throws std::invalid_argument for parents that do not exist and beyond max_positions steps.
  Tensor step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents);

  std::int64_t steps() const { return steps_; }

 private:
  struct Layer {
    Tensor memory_keys, memory_values;  // [B, S, C]
    std::vector<Tensor> keys, values;   // of each step, [rows of that step, C]
  };

  void descend(const std::vector<std::int64_t>& parents);
  Var self_attention(std::size_t layer, const Var& x);
  Var cross_attention(std::size_t layer, const Var& x);
  template <class T>
  void attend_to_steps(const Layer& layer, const Tensor& q, const Tensor& y) const;
  template <class T>
  void attend_to_memory(const Layer& layer, const Tensor& q, const Tensor& y) const;

  Transformer& model_;
  Tape tape_{/*recording=*/false};
  ForwardPass pass_;
  std::vector<Layer> layers_;
  std::vector<std::vector<std::int64_t>> seen_;       // per sentence, the places in the source that are not padding
  std::vector<std::int64_t> sentence_;                // of each row
  std::vector<std::vector<std::int64_t>> ancestors_;  // of each row, its row in every step up to this one
  std::int64_t steps_ = 0;
};

}  // namespace foldgrad
