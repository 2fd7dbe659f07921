// The encoder-decoder Transformer of config.h, for translation.
//
//   Transformer model(config, seed);
//   Var loss = model.loss(batch, {.tape = tape, .dtype = DType::f32, .training = true, .seed = seed, .step = n}, 0.1);
//
//   [TRF-1]  x = drop(sqrt(width) E[id] + sinusoid(position))
//   [TRF-2]  logits = h O^T + o; O is the decoder's table unless share_embeddings = none or inputs; o only if
//            output_bias
//   [TRF-3]  loss = sum over target tokens that are not padding of the label-smoothed cross entropy
//   With config.fixnorm, rows of E and O are divided by their lengths first [FN-1].
//
//   Parameters have fairseq's names and initial values (models/blocks/layers.h, init.cpp). With the defaults and one
//   table of V rows, the model has 31,545,344 + 512 V parameters.
//   Each place with dropout has its own random stream, derived from the place's name; pass.step selects the mask.
#pragma once
#include <deque>

#include "models/blocks/layers.h"
#include "models/model.h"
#include "models/transformer/batch.h"
#include "models/transformer/config.h"

namespace foldgrad {

class Transformer final : public Model {
 public:
  // Parameters have `dtype`. Without a seed, the parameters that init.cpp would fill are 0 until values are copied into
  // them. Throws std::invalid_argument for a configuration that config.validate() or make_normalizer refuses.
  Transformer(const TransformerConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
              Device device = Device::cpu);
  const TransformerConfig& config() const { return config_; }

  // Runs the encoder. `source` must come from placed().
  Var encode(const Sentences& source, const ForwardPass& pass);  // returns [N, width]
  // Runs the decoder. `memory` is the encoder's result, whose rows are `source`.
  Var decode(const Sentences& input, const Var& memory, const Segments& source, const ForwardPass& pass);  // [N, width]
  // Runs the decoder's layers on x from embed_target(). `own` and `cross` compute the layers' attention.
  Var decode(Var x, const Segments& rows, const Attend& own, const Attend& cross, const ForwardPass& pass);
  // Computes [TRF-1]. `ids` is i64 [N] on the model's device; `places` and `first_row` come from Segments.
  Var embed_target(const Tensor& ids, const Tensor& places, const ForwardPass& pass, std::int64_t first_row = 0);
  Var logits(const Var& hidden, const ForwardPass& pass);  // returns [N, target_vocabulary]
  // Run forward() and loss() on a batch on any device.
  Var logits(const TranslationBatch& batch, const ForwardPass& pass) { return forward(batch.named(), pass); }
  Var loss(const TranslationBatch& batch, const ForwardPass& pass, double label_smoothing) {
    return loss(batch.named(), pass, label_smoothing);
  }
  // Returns the sentences on the model's device, with their position among all ranks' sentences. Throws
  // std::invalid_argument if a sentence has more than max_positions tokens; the message begins with `who`.
  Sentences placed(const char* who, const Sentences& sentences, const ForwardPass& pass) const;

  const char* family() const override { return "transformer"; }
  using Model::loss;
  // Returns one row per token of the input.
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override;
  Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) override;
  NamedTensors smallest_inputs() const override;
  // Returns eight pairs of sentences of up to 16 tokens.
  NamedTensors random_inputs(std::uint64_t seed) const override;
  std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded) const override;
  std::unique_ptr<Model> foldable() override;
  // Writes encoder_model.onnx, decoder_model.onnx and decoder_with_past_model.onnx, with config.json and
  // generation_config.json, as Hugging Face's Optimum loads them.
  std::vector<std::string> write_onnx(const std::string& directory) override;

  // Parts of the model, for step-by-step decoding and for tests. Shared tables are one parameter.
  Parameter& source_table() { return encoder_table_; }
  Parameter& target_table() { return config_.one_input_table() ? encoder_table_ : decoder_table_; }
  Parameter& output_table() { return config_.own_output_table() ? output_ : target_table(); }
  std::deque<TransformerLayer>& encoder_layers() { return encoder_; }
  std::deque<TransformerLayer>& decoder_layers() { return decoder_; }
  // Returns the rows of a table as [TRF-1] and [TRF-2] use them.
  Tensor rows_of(const Parameter& table) const;

 private:
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed);  // leaves the normalizers' parameters as they are
  Var embed(Parameter& table, const Tensor& ids, const Tensor& places, std::int64_t first_row, const char* stack,
            const ForwardPass& pass);

  TransformerConfig config_;
  Parameter encoder_table_, decoder_table_, output_, output_bias_;
  std::deque<TransformerLayer> encoder_, decoder_;           // a deque never moves its elements
  std::unique_ptr<Normalizer> encoder_norm_, decoder_norm_;  // null with post-norm
  std::map<DType, Tensor> positions_;                        // [max_positions + 2, width]
};

// Returns the model as a Transformer. Throws std::invalid_argument: "WHO needs a transformer, got FAMILY".
Transformer& as_transformer(Model& model, const char* who);

}  // namespace foldgrad
