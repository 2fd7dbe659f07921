// A Transformer as three files of ONNX, encoder_model.onnx, decoder_model.onnx and decoder_with_past_model.onnx, with
// config.json and generation_config.json, as Hugging Face's Optimum loads them. docs/onnx.md has inputs and outputs.
#pragma once
#include <string>
#include <vector>

#include "models/transformer/transformer.h"

namespace foldgrad {

// Returns the names of the graphs' files. Creates `directory`; files that are there are replaced, once all could be
// written. Throws std::invalid_argument unless the model is f32 on the CPU, for a normalizer with statistics over the
// tokens of a sentence, for weights of 2 GiB or more, and for a directory that holds a model of ours; FileError;
// std::runtime_error where onnx_available() is false.
std::vector<std::string> write_onnx(Transformer& model, const std::string& directory);

}  // namespace foldgrad
