// Copies from the host to the device that do not wait for the kernels before them.
#pragma once
#include <cstddef>

namespace foldgrad {

// The source may be changed as soon as this returns. Throws std::runtime_error when the copy fails.
void upload(void* target, const void* source, std::size_t bytes);

}  // namespace foldgrad
