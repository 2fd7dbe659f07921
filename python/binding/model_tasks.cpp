#include "models/gpt/decoder.h"
#include "models/gpt/gpt.h"
#include "models/images/model.h"
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
  if (nb::isinstance<nb::str>(image) || nb::hasattr(image, "__fspath__")) {
    const auto path = nb::cast<std::string>(nb::str(nb::module_::import_("os").attr("fspath")(image)));
    return native([&] { return read_picture(path); });
  }
  const Tensor pixels = to_tensor(image);
  const Shape& shape = pixels.shape();
  FOLDGRAD_CHECK(pixels.dtype() == DType::u8 && shape.rank() == 3 && shape[2] == kImageChannels && pixels.size() > 0,
                 "classify: an image must be the path of a picture or an array u8 [height, width, 3], got {} {}",
                 name(pixels.dtype()), shape);
  return {shape[0], shape[1], pixels.values<std::uint8_t>()};
}

}  // namespace

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

nb::list classify(SharedModel& m, nb::handle images, std::size_t count) {
  auto& model = model_as<ImageModel>(m, "classify", "classifies images");
  const std::int64_t size = model.config().image_size;
  std::vector<Tensor> squares;
  for (const nb::handle image : images) {
    const Picture picture = picture_of(image);
    squares.push_back(
        Tensor::of({1, size, size, kImageChannels}, native([&] { return square(picture, size).pixels; })));
  }
  nb::list all;
  for (const Tensor& one : squares) {
    const std::vector<LikelyClasses> found =
        native(m.mutex, [&] { return foldgrad::classify(model, one, count, NonFinite::refuse); });
    nb::list classes;
    for (const auto& [name, probability] : found[0]) classes.append(nb::make_tuple(name, probability));
    all.append(classes);
  }
  return all;
}

}  // namespace foldgrad::python
