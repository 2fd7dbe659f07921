// Models as Python holds them.
#pragma once
#include "models/model.h"
#include "python/binding/native.h"

namespace foldgrad::python {

struct SharedModel {
  std::shared_ptr<Model> model;
  std::string directory;  // of the model that was loaded: it has the vocabulary
  std::recursive_mutex mutex;

  SharedModel(std::shared_ptr<Model> of, std::string from) : model(std::move(of)), directory(std::move(from)) {}
};

using ModelClass = nb::class_<SharedModel>;
// Binds what models do with text and images.
void add_tasks(ModelClass& model);

}  // namespace foldgrad::python
