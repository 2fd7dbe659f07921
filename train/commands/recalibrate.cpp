// foldgrad recalibrate: running statistics anew, with the weights as they are.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "train/commands/commands.h"
#include "train/commands/load_transformer.h"
#include "train/commands/model_text.h"
#include "train/data/text/batches.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

struct RecalibrateOptions {
  std::string model, output;
  ModelTextOptions text;
  std::int64_t batches = 0, max_tokens = 4096, seed = 1;
};

int recalibrate(const RecalibrateOptions& o) {
  const auto model = load_transformer(o.model);
  FOLDGRAD_CHECK(!model->state().empty(), "recalibrate: {} has no running statistics: its normalizer is {}", o.model,
                 model->config().normalizer);
  const Vocabulary vocabulary = load_vocabulary(o.model, model->config());
  const EncodedPairs pairs = encode_model_text(read_model_text(o.text, o.model, vocabulary), vocabulary,
                                               std::min(model->config().max_positions, o.max_tokens));
  Batches batches(pairs, {.max_tokens = o.max_tokens, .seed = std::uint64_t(o.seed)});
  const std::int64_t count = o.batches ? o.batches : batches.per_epoch();
  Tape tape(/*recording=*/false);
  for (std::int64_t i = 0; i < count; ++i) {
    const TranslationBatch batch = batches.next().sentences;
    const ForwardPass pass{.tape = tape, .dtype = DType::f32, .training = true, .without_dropout = true};
    const Var memory = model->encode(batch.source, batch.source_mask, pass);
    model->decode(batch.input, batch.input_mask, memory, batch.source_mask, pass);
    tape.clear();
  }
  write_model_directory(o.output, *model, find_model_directory(o.model) + "/vocabulary");
  fmt::print("{}: statistics of {} after {} more batches\n", o.output, find_model_directory(o.model), count);
  return kExitOk;
}

}  // namespace

Action add_recalibrate(CLI::App& command) {
  const auto o = std::make_shared<RecalibrateOptions>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run, with a vocabulary")->required();
  command.add_option("-o,--output", o->output, "Directory of the new model, to be created")->required();
  add_model_text_options(command, o->text, "train");
  command.add_option("--batches", o->batches, "Number of batches; 0: all of them, once")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1000000000)))
      ->capture_default_str();
  command.add_option("--max-tokens", o->max_tokens, "Largest batch, in tokens with padding")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(100000000)))
      ->capture_default_str();
  command.add_option("--seed", o->seed, "Seed of the order of the batches")->capture_default_str();
  command.footer("Exit codes: 0, 2 usage, 3 text or output, 4 the model cannot be loaded, 5 a number is not finite.");
  return [o] { return recalibrate(*o); };
}

}  // namespace foldgrad
