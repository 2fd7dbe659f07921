// Inference on other devices than the CPU: the layers of the model as training runs them, but nothing recorded, with
// keys and values of earlier tokens kept on the device.
#pragma once
#include "models/transformer/inference.h"

namespace foldgrad {

// Makes one for any device, in the precision that InferenceTransformer::make has checked. In bf16 the stream of
// residuals is bf16 too, as in training. `model` must outlive it and must not change.
std::unique_ptr<InferenceTransformer> make_taped_inference(Transformer& model, DType dtype);

}  // namespace foldgrad
