// Initial values of parameters, from counter-based random numbers (engine/philox.h). Each value depends only on the
// seed, the parameter's name and the element's flat index, and is computed in double and rounded once. A model
// therefore starts with the same weights in any precision, on any device and with any normalizer.
//
//   element i of parameter p uses the 32-bit words (a, b): words 2 (i mod 2), 2 (i mod 2) + 1 of block floor(i / 2) of
//   the sequence {seed, random_stream(p.name), step 2^32 - 1}, a step that training never reaches
//   fill_uniform:  bound (2 u(a) - 1)                                   u(a) = (a + 1/2) / 2^32
//   fill_normal:   deviation sqrt(-2 ln u(a)) cos(2 pi u(b))            (Box and Muller, 1958)
#pragma once
#include "engine/tape.h"

namespace foldgrad {

void fill_uniform(Parameter& parameter, double bound, std::uint64_t seed);
void fill_normal(Parameter& parameter, double deviation, std::uint64_t seed);

// Make new parameters. A good bound for a linear layer [out, in] is sqrt(6 / (in + out)) (Glorot, Bengio 2010).
Parameter uniform_parameter(const std::string& name, const Shape& shape, double bound, std::uint64_t seed,
                            DType dtype = DType::f32, Device device = Device::cpu);
Parameter normal_parameter(const std::string& name, const Shape& shape, double deviation, std::uint64_t seed,
                           DType dtype = DType::f32, Device device = Device::cpu);

}  // namespace foldgrad
