#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "train/tasks/translation_commands.h"

namespace foldgrad {
namespace {

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

  // Returns the file's mask, or 1 where ids are not padding.
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

}  // namespace

NamedTensors read_translation_inputs(const Model& model, const std::string& path) {
  const TransformerConfig& config = static_cast<const Transformer&>(model).config();
  const Input file(path);
  const Tensor source = file.ids("source", config.source_vocabulary),
               input = file.ids("input", config.target_vocabulary);
  if (source.shape()[0] != input.shape()[0])
    throw FileError(path,
                    fmt::format("input must have {} rows like source, got {}", source.shape()[0], input.shape()[0]));
  return TranslationBatch{
      source, file.mask("source_mask", source, config.pad), input, file.mask("input_mask", input, config.pad), {}}
      .named();
}

NamedTensors translation_results(Model& model, const NamedTensors& inputs, const ForwardPass& pass) {
  auto& transformer = static_cast<Transformer&>(model);
  const TranslationBatch batch = TranslationBatch::of(inputs);
  const Sentences source = transformer.sentences("encoder", batch.source, batch.source_mask, pass),
                  input = transformer.sentences("decoder", batch.input, batch.input_mask, pass);
  const Var memory = transformer.encode(source, pass);
  const Var hidden = transformer.decode(input, memory, source.rows, pass);
  const Var logits = transformer.logits(transformer.tokens_of(hidden, input.rows, pass), pass);
  return {{"logits", padded(logits.value(), batch.input_mask)},
          {"memory", padded(transformer.tokens_of(memory, source.rows, pass).value(), batch.source_mask)}};
}

}  // namespace foldgrad
