// The widest vector that the build's instruction set has, in bytes.
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
