#include "models/transformer/inference.h"

#include "ops/cast/cast.h"

namespace foldgrad {

InferenceTransformer::InferenceTransformer(Transformer& model)
    : InferenceTransformer(model, model.dtype() == DType::f64 ? DType::f64 : DType::f32) {}

InferenceTransformer::InferenceTransformer(Transformer& model, DType dtype)
    : model_(model), precision_("inference", model, dtype) {}

Sentences InferenceTransformer::sentences(const Tensor& source, const Tensor& source_mask,
                                          const ForwardPass& pass) const {
  FOLDGRAD_CHECK(source.device() == Device::cpu && source_mask.device() == Device::cpu,
                 "inference: takes sources on cpu, got a source on {} and its mask on {}", name(source.device()),
                 name(source_mask.device()));
  Sentences sentences = model_.sentences("inference", source, source_mask, pass);
  for (const std::int64_t id : sentences.ids.values<std::int64_t>())
    FOLDGRAD_CHECK(id >= 0 && id < config().source_vocabulary, "inference: ids must be in [0, {}), got {}",
                   config().source_vocabulary, id);
  return sentences;
}

Tensor InferenceTransformer::encode(const Tensor& source, const Tensor& source_mask) const {
  Tape tape(/*recording=*/false);
  const ForwardPass pass = precision_.pass(tape);
  const Sentences in = sentences(source, source_mask, pass);
  return cast(model_.tokens_of(model_.encode(in, pass), in.rows, pass), precision_.dtype()).value();
}

}  // namespace foldgrad
