// Normalizers that Python owns.
#pragma once
#include "models/normalizers/normalizer.h"
#include "python/binding/tape.h"

namespace foldgrad::python {

struct SharedNormalizer : std::enable_shared_from_this<SharedNormalizer> {
  explicit SharedNormalizer(std::shared_ptr<Normalizer> shared) : norm(std::move(shared)) {}

  std::shared_ptr<Normalizer> norm;  // also keeps the model alive, if the normalizer belongs to one
  std::recursive_mutex mutex;
};

}  // namespace foldgrad::python
