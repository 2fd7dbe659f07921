// Permission for products of f32 on a GPU to round their operands to TensorFloat-32, which has 10 bits of fraction
// instead of 23 and is several times as fast. Off by default. C++17, since .cu files include it.
#pragma once

namespace foldgrad {

// From now on, for all threads. cuBLAS and cuDNN obey; the CPU and the emulation have no TensorFloat-32.
void allow_tf32(bool allowed);
bool tf32_allowed();

}  // namespace foldgrad
