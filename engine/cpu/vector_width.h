// The number of bytes in the widest vector of the instruction set that the build uses.
#pragma once

namespace foldgrad {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

}  // namespace foldgrad
