// Models as Python holds them.
#pragma once
#include "models/gpt/sampling.h"
#include "models/model.h"
#include "models/transformer/beam_search.h"
#include "python/binding/native.h"

namespace foldgrad::python {

struct SharedModel {
  std::shared_ptr<Model> model;
  std::string directory;  // of the model that was loaded: it has the vocabulary
  std::recursive_mutex mutex;

  SharedModel(std::shared_ptr<Model> of, std::string from) : model(std::move(of)), directory(std::move(from)) {}
};

// Use a model on text and images. Throw std::invalid_argument if its family does something else.
std::vector<std::string> translate(SharedModel& m, const std::vector<std::string>& lines, std::int64_t beam,
                                   double length_penalty, std::int64_t max_tokens);
std::string generate(SharedModel& m, const std::string& prompt, std::int64_t tokens, double temperature,
                     std::int64_t top_k, double top_p, std::uint64_t seed);
nb::list classify(SharedModel& m, nb::handle images, std::size_t count);

}  // namespace foldgrad::python
