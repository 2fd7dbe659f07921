// How a model that classifies images begins. X is Xavier's bound sqrt(6 / (in + out)), U(b) uniform in [-b, b], N(s)
// normal.
//
//                           timm          cct               pytorch       tfixup
//   patches, convolutions   U(in^-1/2)    N((2 / in)^1/2)   U(in^-1/2)    U(X), the last of them U(e X)
//   biases of these         U(in^-1/2)    0                 U(in^-1/2)    0
//   positions               N(0.02)       N(0.2)            N(1)          N(e width^-1/2)
//   cls                     N(1e-6)       0                 N(1)          N(e width^-1/2)
//   q, k                    N(0.02)       N(0.02)           U(in^-1/2)    U(X / sqrt 2); with scope all U(f X)
//   v, out, fc1, fc2        N(0.02)       N(0.02)           U(in^-1/2)    U(f X)
//   attention_pool, head    N(0.02)       N(0.02)           U(in^-1/2)    U(X)
//   biases of these         0             0                 U(in^-1/2)    0
//
//   in = 3 patch^2 for patches, channels times pixels of the kernel for convolutions. timm:
//   huggingface/pytorch-image-models, vision_transformer.py, whose truncated normal is cut at +-2, a hundred
//   deviations. cct: SHI-Labs/Compact-Transformers, src/utils, whose truncated normals are cut there too. pytorch: what
//   torch.nn.Linear, torch.nn.Conv2d and torch.randn give, as in lucidrains/vit-pytorch. tfixup: that of
//   models/transformer/init.h for encoders, f = 0.67 layers^-1/4, e = (9 layers)^-1/4. A normalizer's initial_gain()
//   multiplies the weights of v, out, fc1 and fc2 in each.
//
//   Sinusoidal positions in the place of random ones tell from the beginning which tokens are neighbours, so that
//   attention need not learn that first. They go on to be trained:
//   [VIT-3]  positions_(rS+c) = concat(table_(c+2), table_(r+2))
//            of the token in row r and column c, S of each; table: [POS-1], with half of the width. cls has zeros, and
//            so has the last channel of an odd width.
//   After Chen, Xie, He: "An Empirical Study of Training Self-Supervised Vision Transformers", ICCV 2021 (there fixed).
#pragma once
#include "models/images/model.h"

namespace foldgrad {

// Called by the constructor. Normalizers have set their own parameters already.
void initialize(ImageModel& model, std::uint64_t seed);

}  // namespace foldgrad
