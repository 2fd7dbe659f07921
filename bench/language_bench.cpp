// Times a character-level language model of nanoGPT's size, with 6 layers of width 384. Times a training step on 64
// sequences of 256 tokens, with the norm of the gradient and AdamW, and the generation of 255 tokens after the first,
// for one text and for 32 texts.
//
//   language_bench [Google Benchmark's flags]      step/DROPOUT/DTYPE, write/TEXTS/DTYPE
//   bench/pytorch_language.py uses the same names.
#include "bench/machine.h"
#include "bench/model_benches.h"
#include "bench/training_step.h"
#include "models/gpt/sampling.h"

namespace foldgrad::bench {
namespace {

constexpr std::int64_t kBatch = 64;

GptConfig config_of(double dropout) {
  GptConfig config;
  config.vocabulary = 65;
  config.dropout = config.attention_dropout = dropout;
  return config;
}

// Counts the multiply-adds of one token's products; attention sees half of the context on average.
double multiply_adds(const GptConfig& c) {
  const double d = double(c.width), m = double(c.ffn_width);
  return double(c.layers) * (4 * d * d + 2 * d * m + double(c.context) * d) + double(c.vocabulary) * d;
}

NamedTensors random_batch(const GptConfig& config) {
  const Tensor ids = Draws().ids({kBatch, config.context}, 0, config.vocabulary);
  return {{"ids", ids}, {"target", ids.clone()}};
}

void train(benchmark::State& state, double dropout, DType dtype) {
  const GptConfig config = config_of(dropout);
  const std::int64_t tokens = kBatch * config.context;
  auto model = std::make_unique<Gpt>(config, /*seed=*/1);
  StepWork work{.flops = 6 * multiply_adds(config) * double(tokens)};
  for (std::int64_t k = 0; k < config.layers; ++k)
    work.add_layer(/*attentions=*/1, double(tokens * config.width), double(tokens * config.ffn_width));
  work.add_ends(double(tokens * config.width), double(tokens * config.vocabulary), model->parameter_count());
  TrainingStep step(std::move(model), random_batch(config), tokens, AdamW(), dtype);
  for (auto _ : state) step();
  state.counters["tokens/s"] = rate(double(tokens));
  state.counters["of_peak_%"] = rate(100 * work.flops / cpu_limits().fma);
  if (dtype == DType::f32) state.counters["of_floor_%"] = rate(100 * work.floor());
}

void write(benchmark::State& state, std::size_t texts, DType dtype) {
  Gpt model(config_of(0), /*seed=*/1);
  GptDecoder decoder(model, dtype);
  const std::int64_t tokens = model.config().context - 1;
  const auto run = [&] {
    generate(decoder, std::vector<TokenIds>(texts, {0}), tokens, {}, [](std::size_t, std::int64_t) {});
  };
  run();
  for (auto _ : state) run();
  state.counters["tokens/s"] = rate(double(texts) * double(tokens));
}

int register_all(int&, char**) {
  describe_machine(Device::cpu);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double dropout : {0.0, 0.2}) add(fmt::format("step/{}/{}", dropout, name(dtype)), train, dropout, dtype);
    for (const std::size_t texts : {1, 32}) add(fmt::format("write/{}/{}", texts, name(dtype)), write, texts, dtype);
  }
  return 0;
}

}  // namespace
}  // namespace foldgrad::bench

int main(int argc, char** argv) {
  return foldgrad::bench::run_program("language_bench", argc, argv, foldgrad::bench::register_all);
}
