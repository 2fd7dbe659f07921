#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct EmbeddingForward {
  T* y;                     // [positions, columns]
  const T* x;               // [rows, columns]
  const std::int64_t* ids;  // [positions]
  std::int64_t positions, rows, columns;
  compute_t<T> scale;

  FOLDGRAD_HD compute_t<T> value(std::int64_t id, std::int64_t c) const {
    return scale * compute_t<T>(x[id * columns + c]);  // [EMB-1]
  }
};

template <class T>
struct EmbeddingBackward {
  ParameterGradOut<T> dx;   // [rows, columns]
  const T* dy;              // [positions, columns]
  const std::int64_t* ids;  // [positions]; fewer than 2^31
  std::int64_t positions, rows, columns;
  compute_t<T> scale;
  std::int64_t padding_id;  // -1 if no id is padding

  FOLDGRAD_HD bool counts(std::int64_t id) const { return 0 <= id && id < rows && id != padding_id; }
  // Puts element (v, c) of dx. `sum` is the sum of dy over the positions with id v.
  FOLDGRAD_HD void put(std::int64_t v, std::int64_t c, compute_t<T> sum) const {
    dx.put(v * columns + c, scale * sum);  // [EMB-2]
  }
};

FOLDGRAD_DECLARE(embedding, EmbeddingForward);
FOLDGRAD_DECLARE(embedding, EmbeddingBackward);

}  // namespace foldgrad
