// A normalizer as Python holds it.
#pragma once
#include "models/normalizers/normalizer.h"
#include "python/binding/tape.h"

namespace foldgrad::python {

// `owner` keeps the model of a normalizer that belongs to one.
struct SharedNormalizer : std::enable_shared_from_this<SharedNormalizer> {
  explicit SharedNormalizer(std::unique_ptr<Normalizer> made) : own(std::move(made)), norm(own.get()) {}
  SharedNormalizer(Normalizer* of_a_model, std::shared_ptr<void> model) : owner(std::move(model)), norm(of_a_model) {}

  std::shared_ptr<void> owner;
  std::unique_ptr<Normalizer> own;
  Normalizer* norm;
  std::recursive_mutex mutex;
};

}  // namespace foldgrad::python
