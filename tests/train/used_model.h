// Makes models for tests of train/checks/. Their normalizers have the state of a trained model.
#pragma once
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {

using Options = std::map<std::string, std::string>;

// Returns an f64 model after 12 forward passes in training mode. Dropout makes the entries of each window differ. In
// pass `outlier_at`, counted from 1, the source embeddings are 20 times as large.
inline std::unique_ptr<Transformer> used_model(const std::string& normalizer, const Options& options,
                                               bool pre_norm = true, std::uint32_t outlier_at = 0) {
  TransformerConfig config = tiny_config(normalizer, pre_norm);
  config.normalizer_options = options;
  config.dropout = 0.2;
  auto model = std::make_unique<Transformer>(config, 3, DType::f64);
  randomize(*model, 5, 0.3);
  Tensor table = model->source_table().value;
  for (std::uint32_t step = 1; step <= 12; ++step) {
    const Tensor before = table.clone();
    for (std::int64_t i = 0; i < table.size() && step == outlier_at; ++i) table.data<double>()[i] *= 20;
    Tape tape(/*recording=*/false);
    model->loss(translation_batch(), {.tape = tape, .dtype = DType::f64, .training = true, .step = step}, 0);
    table.copy_from(before);
  }
  return model;
}
inline std::unique_ptr<Transformer> used_un(Options options = {}, std::uint32_t outlier_at = 0) {
  options.emplace("warmup", "6");
  return used_model("un", options, /*pre_norm=*/true, outlier_at);
}

}  // namespace foldgrad::testing
