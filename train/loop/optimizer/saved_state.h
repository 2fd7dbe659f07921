// Named tensors of a checkpoint, back into the tensors they were taken from.
#pragma once
#include <map>
#include <string>

#include "engine/tensor.h"

namespace foldgrad {

// Throws std::invalid_argument unless `saved` has the names of `own` and no others, with the same shapes and dtypes.
// `op` is for the message.
void check_saved_state(const char* op, const std::map<std::string, Tensor>& own,
                       const std::map<std::string, Tensor>& saved);

}  // namespace foldgrad
