// FixNorm's tables: rows count divided by their lengths wherever the model, its folding and its inference read them.
#include <cmath>

#include "models/fold/model.h"
#include "tests/models/transformer/step_logits.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

TransformerConfig fixnorm_config(const std::string& share) {
  TransformerConfig config = tiny_config("un");
  config.fixnorm = true;
  config.share_embeddings = share;
  return config;
}

// A model without fixnorm whose tables were divided here, row by row.
std::unique_ptr<Transformer> divided(Transformer& model) {
  TransformerConfig config = model.config();
  config.fixnorm = false;
  auto plain = std::make_unique<Transformer>(config, 1, DType::f64);
  plain->copy_from(model);
  for (Parameter* p : plain->parameters()) {
    if (p->name.find("embed_tokens") == std::string::npos && p->name != "decoder.output_projection.weight") continue;
    for (std::int64_t r = 0; r < p->value.shape()[0]; ++r) {
      double *row = p->value.data<double>() + r * 8, squares = 0;
      for (int c = 0; c < 8; ++c) squares += row[c] * row[c];
      for (int c = 0; c < 8; ++c) row[c] /= std::sqrt(squares);
    }
  }
  return plain;
}

TEST(FixNorm, FN_1_IsTheModelWithDividedRows) {
  const TranslationBatch batch = translation_batch();
  for (const char* share : {"all", "decoder", "inputs", "none"}) {
    SCOPED_TRACE(share);
    Transformer model(fixnorm_config(share), 1, DType::f64);
    randomize(model, 10, 3);
    const auto plain = divided(model);
    const Tensor want = inference_logits(*plain, batch.named(), DType::f64);
    EXPECT_TRUE(close(inference_logits(model, batch.named(), DType::f64), want, 1e-12));
    EXPECT_TRUE(close(logits_by_steps(*InferenceTransformer::make(model, DType::f64), batch),
                      real_rows(want, batch.input_mask), 1e-12));
    const FoldedModel folded = fold(model, {.tied = FoldOptions::Tied::untie});
    EXPECT_FALSE(transformer_of(folded).config().fixnorm);
    EXPECT_TRUE(close(inference_logits(*folded.model, batch.named(), DType::f64), want, 1e-11));
    for (Parameter* p : model.parameters())
      if (p->name == "encoder.embed_tokens.weight") {
        EXPECT_FALSE(close(transformer_of(folded).source_table().value, p->value, 0.1));
      }
  }
}

// The gradient of a shared table, through both embeddings and the output projection, by differences.
TEST(FixNorm, FN_1_SN_2_GradientOfASharedTable) {
  Transformer model(fixnorm_config("all"), 1, DType::f64);
  randomize(model, 10);
  const TranslationBatch batch = translation_batch();
  Parameter& table = model.source_table();
  const NamedTensors before = model.snapshot();
  const auto loss = [&](Tape& tape) {
    model.restore(before);
    return model.loss(batch, {.tape = tape, .dtype = DType::f64, .training = true}, 0.1);
  };
  Tape tape;
  tape.backward(loss(tape));
  for (std::int64_t i = 0; i < table.value.size(); ++i) {
    constexpr double h = 3e-4;
    double& x = table.value.data<double>()[i];
    const double x0 = x;
    const auto at = [&](double step) {
      x = x0 + step;
      Tape silent(/*recording=*/false);
      return loss(silent).value().item();
    };
    const double near = at(h) - at(-h), far = at(2 * h) - at(-2 * h);
    x = x0;
    // Truncation falls with h^4. Row 1 is padding: its embedding is no function of it, its logit is.
    EXPECT_NEAR(table.grad.data<double>()[i], (8 * near - far) / (12 * h), 1e-6) << i;
  }
}

TEST(FixNorm, BeginsUniformWithinAHundredth) {
  TransformerConfig config = fixnorm_config("none");
  config.source_vocabulary = config.target_vocabulary = 1000;
  for (const char* initialization : {"fairseq", "xavier", "tfixup"}) {
    config.initialization = initialization;
    Transformer model(config, 1, DType::f64);
    for (const Parameter* table : {&model.source_table(), &model.target_table(), &model.output_table()}) {
      double most = 0, squares = 0;
      for (double v : table->value.values<double>()) most = std::max(most, std::abs(v)), squares += v * v;
      EXPECT_LE(most, 0.01) << table->name;
      // 8,000 draws: their mean square is within 5 deviations (2 / sqrt(5) of it each) of a third of 1e-4.
      EXPECT_NEAR(squares / 8000, 1e-4 / 3, 5 * 1e-4 / 3 * 0.9 / std::sqrt(8000.0)) << table->name;
    }
    EXPECT_EQ(model.source_table().value.slice(1, 2).values<double>(), std::vector<double>(8, 0.0));
  }
}

}  // namespace
}  // namespace foldgrad::testing
