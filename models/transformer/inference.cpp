#include "models/transformer/inference.h"

#include "ops/cast/cast.h"

namespace foldgrad {

InferenceTransformer::InferenceTransformer(Transformer& model)
    : InferenceTransformer(model, model.dtype() == DType::f64 ? DType::f64 : DType::f32) {}

InferenceTransformer::InferenceTransformer(Transformer& model, DType dtype) : model_(model), dtype_(dtype) {
  const bool exact = model.dtype() == DType::f64;
  FOLDGRAD_CHECK(exact ? dtype == DType::f64 : dtype == DType::f32 || dtype == DType::bf16,
                 "inference: a model of {} runs in {}, got {}", name(model.dtype()), exact ? "f64" : "f32 or bf16",
                 name(dtype));
  if (model.device() == Device::cpu) packed_.emplace(dtype);
}

ForwardPass InferenceTransformer::pass(Tape& tape) const {
  const bool wider = packed_ && dtype_ == DType::bf16;
  return {.tape = tape, .dtype = wider ? DType::f32 : dtype_, .packed = packed_ ? &*packed_ : nullptr};
}

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
  const ForwardPass pass = this->pass(tape);
  const Sentences in = sentences(source, source_mask, pass);
  return cast(model_.tokens_of(model_.encode(in, pass), in.rows, pass), dtype_).value();
}

}  // namespace foldgrad
