// foldgrad run: a forward pass over ids, for other programs and for looking closer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "train/commands/commands.h"
#include "train/commands/load_transformer.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

struct RunOptions {
  std::string model, input, output, device = "cpu";
  DType dtype = DType::f32;
  NonFinite non_finite = NonFinite::refuse;
};

class Input {
 public:
  explicit Input(const std::string& path) : path_(path), tensors_(read_safetensors(path).tensors) {
    for (const auto& [name, tensor] : tensors_)
      if (name != "source" && name != "source_mask" && name != "input" && name != "input_mask")
        throw FileError(path, fmt::format("must hold source, input and their masks, got {}", name));
  }

  // i64 [rows, tokens], each in [0, vocabulary).
  Tensor ids(const char* name, std::int64_t vocabulary) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      throw FileError(path_, fmt::format("must have a tensor {} of ids, i64 [sentences, tokens]", name));
    const Tensor& t = found->second;
    if ((t.dtype() != DType::i64 && t.dtype() != DType::i32) || t.shape().rank() != 2 || t.size() == 0)
      throw FileError(path_, fmt::format("{} must be i64 or i32 [sentences, tokens], got {}", name, describe(t)));
    const Tensor ids = t.to(DType::i64);
    for (std::int64_t i = 0; i < ids.size(); ++i)
      if (const std::int64_t id = ids.data<std::int64_t>()[i]; id < 0 || id >= vocabulary)
        throw FileError(path_, fmt::format("{}[{}, {}] must be an id in [0, {}), got {}", name, i / t.shape()[1],
                                           i % t.shape()[1], vocabulary, id));
    return ids;
  }

  // What the file has, or 1 where ids are not padding.
  Tensor mask(const char* name, const Tensor& ids, std::int64_t pad) const {
    const Tensor mask = Tensor::empty(ids.shape(), DType::u8);
    std::uint8_t* real = mask.data<std::uint8_t>();
    for (std::int64_t i = 0; i < ids.size(); ++i) real[i] = ids.data<std::int64_t>()[i] != pad;
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return mask;
    const Tensor& t = found->second;
    if (t.dtype() != DType::u8 || t.shape() != ids.shape())
      throw FileError(path_, fmt::format("{} must be u8 {}, got {}", name, ids.shape(), describe(t)));
    for (const std::uint8_t bit : t.values<std::uint8_t>())
      if (bit > 1) throw FileError(path_, fmt::format("{} must hold 0 and 1, got {}", name, bit));
    return t;
  }

 private:
  std::string path_;
  NamedTensors tensors_;
};

// Of the rows that `mask` calls tokens; the others have no meaning.
bool finite_rows(const Tensor& x, const Tensor& mask) {
  const std::vector<double> values = x.to(Device::cpu).to(DType::f64).values<double>();
  const std::vector<std::uint8_t> real = mask.to(Device::cpu).values<std::uint8_t>();
  const std::size_t C = values.size() / real.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (real[i / C] && !std::isfinite(values[i])) return false;
  return true;
}

int run(const RunOptions& o) {
  const Device device = require_device(o.device);
  const auto model = load_transformer(o.model, o.dtype == DType::f64 ? DType::f64 : DType::f32, device, o.non_finite);
  const TransformerConfig& config = model->config();
  const Input file(o.input);
  const Tensor source = file.ids("source", config.source_vocabulary),
               input = file.ids("input", config.target_vocabulary);
  if (source.shape()[0] != input.shape()[0])
    throw FileError(o.input,
                    fmt::format("input must have {} rows like source, got {}", source.shape()[0], input.shape()[0]));
  const Tensor source_mask = file.mask("source_mask", source, config.pad).to(device);
  const Tensor input_mask = file.mask("input_mask", input, config.pad).to(device);
  Tape tape(/*recording=*/false);
  const ForwardPass pass{.tape = tape, .dtype = o.dtype};
  const Var memory = model->encode(source.to(device), source_mask, pass);
  const Var logits = model->logits(model->decode(input.to(device), input_mask, memory, source_mask, pass), pass);
  if (o.non_finite == NonFinite::refuse &&
      !(finite_rows(memory.value(), source_mask) && finite_rows(logits.value(), input_mask)))
    refuse_non_finite("run: the result", *model,
                      TranslationBatch{source.to(device), source_mask, input.to(device), input_mask, {}}.named(),
                      o.dtype);
  write_safetensors(o.output, {{"logits", logits.value().to(Device::cpu)}, {"memory", memory.value().to(Device::cpu)}});
  fmt::print("{}: logits {}, memory {}\n", o.output, describe(logits.value()), describe(memory.value()));
  return kExitOk;
}

}  // namespace

Action add_run(CLI::App& command) {
  const auto o = std::make_shared<RunOptions>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run")->required();
  command
      .add_option("--input", o->input,
                  "safetensors: source and input, i64 [sentences, tokens]; source_mask and input_mask, u8, 1 for "
                  "tokens and 0 for padding, default: where ids are not padding")
      ->required();
  command
      .add_option("--output", o->output,
                  "safetensors: logits [sentences, tokens, vocabulary], memory: the encoder's output")
      ->required();
  add_dtype_option(command, o->dtype, {DType::f32, DType::f64, DType::bf16}, "Precision of the computation");
  add_device_option(command, o->device);
  add_non_finite_option(command, o->non_finite);
  command.footer(
      "Exit codes: 0, 2 usage, 3 input or output, 4 the model cannot be loaded, 5 a number is not finite, 6 device.");
  return [o] { return run(*o); };
}

}  // namespace foldgrad
