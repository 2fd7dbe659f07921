// Whether products of f32 on a GPU may round their operands to TensorFloat-32, which has 10 bits behind the point in
// place of 23 and is several times as fast. They may not unless someone says so. C++17, since .cu files include it.
#pragma once

namespace foldgrad {

// From now on, for all threads. cuBLAS and cuDNN obey; the CPU and the emulation have no TensorFloat-32.
void allow_tf32(bool allowed);
bool tf32_allowed();

}  // namespace foldgrad
