// Trains a small Transformer to copy sentences.
#pragma once
#include <cmath>

#include "train/loop/trainer.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad::testing {

constexpr std::int64_t kWords = 5, kFirstWord = 4;

// Returns sentences to copy: the numbers begin, begin + step, ... below 2000, each written in base 5, with 1 to 5
// digits.
inline EncodedPairs copies(std::int64_t begin, std::int64_t step) {
  EncodedPairs pairs;
  for (std::int64_t n = begin; n < 2000; n += step) {
    Ids ids;
    for (std::int64_t rest = n; rest > 0; rest /= kWords) ids.push_back(kFirstWord + rest % kWords);
    ids.push_back(kEos);
    pairs.source.push_back(ids);
    pairs.target.push_back(ids);
  }
  return pairs;
}

inline TransformerConfig small_config(const std::string& normalizer) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = kFirstWord + kWords;
  config.width = 32, config.ffn_width = 64, config.heads = 2;
  config.encoder_layers = config.decoder_layers = 1;
  config.max_positions = 16;
  config.dropout = config.attention_dropout = config.activation_dropout = 0;
  config.normalizer = normalizer;
  if (normalizer == "un") config.normalizer_options = {{"warmup", "3"}, {"window", "2"}};
  return config;
}

// A task on batches that the test owns, so that the test can inspect them and step through them.
class BatchTask final : public Task {
 public:
  BatchTask(Transformer& model, Batches& batches) : Task(model, {.unit_of_work = "tokens"}), batches_(batches) {}

  Examples next() override { return examples_of(batches_.next()); }
  Batches& batches() override { return batches_; }
  Validation validate(Communicator*) override { throw std::logic_error("BatchTask cannot validate"); }

 private:
  Batches& batches_;
};

// A training run with all its parts. By default it trains on copies(1, 2), the odd numbers.
struct TinyTraining {
  TinyTraining(const TransformerConfig& config, std::uint64_t seed, const TrainerOptions& options,
               const Optimizer::Rule& rule = Adam{}, double lr = 5e-3, DType dtype = DType::f32,
               const EncodedPairs& pairs = copies(1, 2), Device device = Device::cpu,
               Communicator* communicator = nullptr)
      : model(config, seed, dtype, device),
        optimizer(rule, {{.parameters = model.parameters()}}),
        schedule({.shape = ScheduleShape::constant, .peak = lr}),
        batches(pairs, {.max_tokens = 256, .seed = seed}),
        task(model, batches),
        trainer(task, optimizer, schedule, options, communicator) {}

  void steps(int n) {
    for (int i = 0; i < n; ++i) trainer.step();
  }
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (const Parameter* p : model.parameters()) all.push_back(p->value.values<float>());
    for (const auto& [name, tensor] : model.state()) all.push_back(tensor.to(DType::f32).values<float>());
    if (trainer.average())
      for (const auto& [name, tensor] : trainer.average()->state()) all.push_back(tensor.values<float>());
    return all;
  }
  // Returns the Euclidean distance between values() and `before`, the result of an earlier values().
  double distance(const std::vector<std::vector<float>>& before) {
    const auto now = values();
    double squares = 0;
    for (std::size_t i = 0; i < now.size(); ++i)
      for (std::size_t j = 0; j < now[i].size(); ++j) squares += std::pow(double(now[i][j]) - before[i][j], 2);
    return std::sqrt(squares);
  }

  Transformer model;
  Optimizer optimizer;
  Schedule schedule;
  Batches batches;
  BatchTask task;
  Trainer trainer;
};

inline TransformerConfig with_dropout(TransformerConfig config) {
  config.dropout = config.attention_dropout = config.activation_dropout = 0.1;
  return config;
}

}  // namespace foldgrad::testing
