// A Transformer as three files of ONNX: encoder.onnx, decoder.onnx, decoder_with_past.onnx. docs/onnx.md has their
// inputs and outputs.
#pragma once
#include <string>

#include "models/transformer.h"

namespace foldgrad {

// Creates `directory`; files that are there are replaced, once all three could be written. Throws
// std::invalid_argument unless the model is f32 on the CPU, for a normalizer with statistics over the tokens of a
// sentence and for weights of 2 GiB or more; FileError; std::runtime_error where onnx_available() is false.
void write_onnx(Transformer& model, const std::string& directory);

}  // namespace foldgrad
