// How a vision Transformer begins. X is Xavier's bound sqrt(6 / (in + out)), U(b) uniform in [-b, b], N(s) normal.
//
//                           timm          pytorch           tfixup
//   patches, weight         U(in^-1/2)    U(in^-1/2)        U(e X)
//   patches, bias           U(in^-1/2)    U(in^-1/2)        0
//   positions               N(0.02)       N(1)              N(e width^-1/2)
//   cls                     N(1e-6)       N(1)              N(e width^-1/2)
//   q, k                    N(0.02)       U(in^-1/2)        U(X / sqrt 2); with scope all U(f X)
//   v, out, fc1, fc2        N(0.02)       U(in^-1/2)        U(f X)
//   head                    N(0.02)       U(in^-1/2)        U(X)
//   biases of these         0             U(in^-1/2)        0
//
//   in = 3 patch^2 for patches. timm: huggingface/pytorch-image-models, vision_transformer.py, whose truncated normal
//   is cut at +-2, a hundred deviations. pytorch: what torch.nn.Linear and torch.randn give, as in
//   lucidrains/vit-pytorch. tfixup: that of models/transformer/init.h for encoders, f = 0.67 layers^-1/4, e = (9
//   layers)^-1/4. A normalizer's initial_gain() multiplies the weights of v, out, fc1 and fc2 in each.
#pragma once
#include "models/vit/vit.h"

namespace foldgrad {

// Called by the constructor. Normalizers have set their own parameters already.
void initialize(Vit& model, std::uint64_t seed);

}  // namespace foldgrad
