// foldgrad recalibrate: running statistics anew, with the weights as they are.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "train/commands/commands.h"
#include "train/commands/load_transformer.h"
#include "train/commands/model_config.h"
#include "train/commands/model_text.h"
#include "train/data/data_root.h"
#include "train/data/text/batches.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

struct RecalibrateOptions {
  std::string model, output, config, device = "auto";
  ModelTextOptions text;
  std::int64_t batches = 0, max_tokens = 4096, seed = 1;
};

// In training, but for dropout. Returns how many batches they were.
std::int64_t pass_text(const RecalibrateOptions& o, Transformer& model) {
  const Vocabulary vocabulary = load_vocabulary(o.model, model.config());
  const EncodedPairs pairs = encode_model_text(read_model_text(o.text, o.model, vocabulary), vocabulary,
                                               std::min(model.config().max_positions, o.max_tokens));
  Batches batches(pairs, {.max_tokens = o.max_tokens, .seed = std::uint64_t(o.seed)});
  const std::int64_t count = o.batches ? o.batches : batches.per_epoch();
  Tape tape(/*recording=*/false);
  for (std::int64_t i = 0; i < count; ++i) {
    const TranslationBatch batch = batches.next().sentences;
    const ForwardPass pass{.tape = tape, .dtype = DType::f32, .training = true, .without_dropout = true};
    const Sentences source = model.sentences("encoder", batch.source, batch.source_mask, pass),
                    input = model.sentences("decoder", batch.input, batch.input_mask, pass);
    model.decode(input, model.encode(source, pass), source.rows, pass);
    tape.clear();
  }
  return count;
}

// The same with what a run of the model's family trains on.
std::int64_t pass_examples(const RecalibrateOptions& o, Model& model) {
  FOLDGRAD_CHECK(
      o.text.source.empty() && o.text.reference.empty() && o.text.split == "train",
      "recalibrate: a model of model.family \"{}\" takes what it was trained on, no --source, --reference or "
      "--split",
      model.family());
  ExperimentConfig config = read_model_config(model, o.model, o.config);
  config.train.seed = o.seed;
  const auto task = make_task(config, data_directory(config.data_directory(), o.text.data_directory),
                              find_model_directory(o.model), Device::cpu);
  const std::int64_t count = o.batches ? o.batches : task->batches_per_epoch();
  FOLDGRAD_CHECK(count > 0,
                 "recalibrate: --batches must be above 0 for a model of model.family \"{}\", whose examples "
                 "have no epochs",
                 model.family());
  for (std::int64_t i = 0; i < count; ++i) {
    Tape tape(/*recording=*/false);
    model.forward(task->next().inputs, {.tape = tape, .dtype = DType::f32, .training = true, .without_dropout = true});
  }
  return count;
}

int recalibrate(const RecalibrateOptions& o) {
  const auto model = load_model(o.model, DType::f32, require_device(o.device));
  const auto normalizers = model->normalizers();
  FOLDGRAD_CHECK(!model->state().empty(), "recalibrate: {} has no running statistics: its normalizer is {}", o.model,
                 normalizers.empty() ? "none" : normalizers[0]->info().name);
  auto* transformer = dynamic_cast<Transformer*>(model.get());
  const std::int64_t count = transformer ? pass_text(o, *transformer) : pass_examples(o, *model);
  write_model_directory(o.output, *model, find_model_directory(o.model) + "/vocabulary");
  fmt::print("{}: statistics of {} after {} more batches\n", o.output, find_model_directory(o.model), count);
  return kExitOk;
}

}  // namespace

Action add_recalibrate(CLI::App& command) {
  const auto o = std::make_shared<RecalibrateOptions>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run; one that translates has a vocabulary")
      ->required();
  command.add_option("-o,--output", o->output, "Directory of the new model, to be created")->required();
  add_model_text_options(command, o->text, "train");
  add_model_config_option(command, o->config);
  command.add_option("--batches", o->batches, "Number of batches; 0: all of them, once")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1000000000)))
      ->capture_default_str();
  command.add_option("--max-tokens", o->max_tokens, "Largest batch, in tokens with padding")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(100000000)))
      ->capture_default_str();
  command.add_option("--seed", o->seed, "Seed of the order of the batches")->capture_default_str();
  add_device_option(command, o->device);
  command.footer(
      "Exit codes: 0, 2 usage, 3 text, images or output, 4 the model cannot be loaded, 5 a number is not finite, 6 "
      "device.");
  return [o] { return recalibrate(*o); };
}

}  // namespace foldgrad
