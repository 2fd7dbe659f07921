// Models that Python owns.
#pragma once
#include "models/model.h"
#include "python/binding/native.h"

namespace foldgrad::python {

struct SharedModel {
  std::shared_ptr<Model> model;
  std::string directory;  // directory from which the model was loaded; contains the vocabulary
  std::recursive_mutex mutex;

  SharedModel(std::shared_ptr<Model> of, std::string from) : model(std::move(of)), directory(std::move(from)) {}
};

using ModelClass = nb::class_<SharedModel>;
// Binds translate(), generate() and classify().
void add_tasks(ModelClass& model);

}  // namespace foldgrad::python
