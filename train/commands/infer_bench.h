// What inference costs with several normalizers. They take turns in every round, so that all meet the same machine.
#pragma once
#include <nlohmann/json.hpp>

#include "engine/device.h"
#include "models/transformer/config.h"
#include "train/reports/plot.h"

namespace foldgrad {

// fairseq's transformer_iwslt_de_en with the vocabularies of IWSLT14.
inline TransformerConfig iwslt_config() {
  TransformerConfig config;
  config.source_vocabulary = 8848, config.target_vocabulary = 6632, config.share_embeddings = "decoder";
  return config;
}

struct InferBenchOptions {
  // Those that can be folded away are also measured folded, as NAME_folded.
  std::vector<std::string> normalizers{"ln", "rmsnorm", "un", "none"};
  std::vector<std::string> dtypes{"f32", "bf16"};
  std::vector<std::int64_t> batches{1, 32}, lengths{32};
  std::int64_t beam = 5, rounds = 5;
  Device device = Device::cpu;
  bool cpu_time = false;  // measure the CPU time of all threads instead of wall-clock time
  std::string save;       // directory, where the models go as NAME; empty: nowhere
  TransformerConfig config = iwslt_config();
};

// One task with one model. Tasks: "encoder"; "token", one token of each sentence by the decoder; "greedy" and "beam",
// which translate into as many tokens as the source has.
struct InferCost {
  std::string task, normalizer, dtype;
  std::int64_t batch, length;
  double median, p90;        // seconds
  double tokens_per_second;  // of the source; "token", "greedy" and "beam": of the translation
  double peak;               // bytes of tensors: the model, as trained and packed, and the most that the task needs
  std::optional<double> over_none;  // median over that of the model without normalizers
};

// Models have random weights. Throws std::invalid_argument for options out of range and normalizers that cannot decode.
std::vector<InferCost> measure_inference(const InferBenchOptions& options);

std::string cost_table(const std::vector<InferCost>& costs);
nlohmann::ordered_json cost_json(const std::vector<InferCost>& costs, const InferBenchOptions& options);
// For each dtype and task, against the length with the last batch size and against the batch size with the last
// length, where there are several: throughput, and what normalizers add. All rows have equally many.
std::vector<Plot> cost_plots(const std::vector<InferCost>& costs, const InferBenchOptions& options);

}  // namespace foldgrad
