#include <nanobind/stl/pair.h>

#include "models/gpt/decoder.h"
#include "models/gpt/gpt.h"
#include "models/gpt/sampling.h"
#include "models/images/model.h"
#include "models/transformer/beam_search.h"
#include "models/transformer/transformer.h"
#include "python/binding/arrays.h"
#include "python/binding/models.h"
#include "train/checks/finite.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/likely_classes.h"
#include "train/tasks/language/language.h"
#include "train/tasks/translation/translator.h"

namespace foldgrad::python {
namespace {

template <class M>
M& model_as(SharedModel& m, const char* call, const char* does) {
  auto* model = dynamic_cast<M*>(m.model.get());
  FOLDGRAD_CHECK(model, "{}: the model must be one that {}, but this is a {}", call, does, m.model->family());
  return *model;
}

Picture picture_of(nb::handle image) {
  Path path;
  if (nb::try_cast(image, path)) return native([&] { return read_picture(path.string()); });
  const Tensor pixels = to_tensor(image);
  const Shape& shape = pixels.shape();
  FOLDGRAD_CHECK(pixels.dtype() == DType::u8 && shape.rank() == 3 && shape[2] == kImageChannels && pixels.size() > 0,
                 "classify: an image must be the path of a picture or an array u8 [height, width, 3], got {} {}",
                 name(pixels.dtype()), shape);
  return {shape[0], shape[1], pixels.values<std::uint8_t>()};
}

std::vector<std::string> translate(SharedModel& m, const std::vector<std::string>& lines, std::int64_t beam,
                                   double length_penalty, std::int64_t max_tokens) {
  auto& model = model_as<Transformer>(m, "translate", "translates (transformer)");
  return native(m.mutex, [&] {
    Translator translator(model, load_vocabulary(m.directory, model.config()),
                          {.decoding = {.beam = beam, .length_penalty = length_penalty}, .max_tokens = max_tokens});
    std::vector<Ids> sources;
    const auto place = [](std::size_t line) { return fmt::format("line {}", line + 1); };
    for (std::size_t i = 0; i < lines.size(); ++i) sources.push_back(translator.encode(lines[i], place(i)));
    std::vector<std::string> translations;
    for (const Hypothesis& best : translator.translate(sources))
      translations.push_back(translator.decode(best, place(translations.size())));
    return translations;
  });
}

std::string generate(SharedModel& m, const std::string& prompt, std::int64_t tokens, double temperature,
                     std::int64_t top_k, double top_p, std::uint64_t seed) {
  auto& model = model_as<Gpt>(m, "generate", "writes text (gpt)");
  FOLDGRAD_CHECK(tokens >= 0, "generate: the number of tokens must be at least 0, got {}", tokens);
  return native(m.mutex, [&] {
    const TextVocabulary vocabulary = load_text_vocabulary(m.directory, model.config());
    Ids ids = vocabulary.encode_known("generate: the prompt", prompt.empty() ? "\n" : prompt);
    GptDecoder decoder(model, DType::f32);
    const bool finite = foldgrad::generate(decoder, {ids}, tokens, {temperature, top_k, top_p, seed},
                                           [&](std::size_t, std::int64_t token) { ids.push_back(token); });
    if (!finite) throw NonFiniteError("generate: the logits of the next token are not finite");
    return vocabulary.decode(ids);
  });
}

std::vector<LikelyClasses> classify(SharedModel& m, nb::handle images, std::size_t count) {
  auto& model = model_as<ImageModel>(m, "classify", "classifies images");
  const std::int64_t size = model.config().image_size;
  std::vector<LikelyClasses> all;
  for (const nb::handle image : images)
    native(m.mutex, [&, picture = picture_of(image)] {
      const Tensor pixels = Tensor::of({1, size, size, kImageChannels}, square(picture, size).pixels);
      all.push_back(foldgrad::classify(model, pixels, count, NonFinite::refuse)[0]);
    });
  return all;
}

}  // namespace

void add_tasks(ModelClass& model) {
  model
      .def("translate", translate, "lines"_a, nb::kw_only(), "beam"_a = DecodingOptions().beam,
           "length_penalty"_a = DecodingOptions().length_penalty, "max_tokens"_a = 4096,
           "Translates lines like `foldgrad translate`. Throws ValueError if the model does not translate, and "
           "FileError with the line number if a line is not UTF-8 or is too long.")
      .def("generate", generate, "prompt"_a, "tokens"_a, nb::kw_only(), "temperature"_a = SamplingOptions().temperature,
           "top_k"_a = SamplingOptions().top_k, "top_p"_a = SamplingOptions().top_p, "seed"_a = SamplingOptions().seed,
           "Returns the prompt and the model's continuation, like `foldgrad generate`. Throws ValueError if the model "
           "does not generate text, or if the prompt has a character that is not in the vocabulary.")
      .def(
          "classify", classify, "images"_a, "count"_a = 5,
          "Returns the `count` likeliest classes of each image with their probabilities. An image is the path of a PNG "
          "or JPEG file, or a u8 array [height, width, 3]. Its largest centred square is scaled to the size that the "
          "model expects. Throws ValueError if the model does not classify images.");
}

}  // namespace foldgrad::python
