// Initial values of a Transformer. X is Xavier's bound sqrt(6 / (in + out)), U(b) uniform in [-b, b], N(s) normal.
//
//                           fairseq (1.0.0a0)        xavier                  tfixup
//   embeddings              N(width^-1/2), pad row 0 the same                the same times e
//   output table of its own N(width^-1/2)            the same                the same
//   tables with fixnorm     U(0.01), pad row 0 but in an output table of its own, in each of the three
//   q, k, self-attention    U(X / sqrt 2)            U(X / sqrt 2)           U(X / sqrt 2); with scope all U(f X)
//   v, self-attention       U(X / sqrt 2)            U(X / sqrt 2)           U(f X)
//   q, attention to source  U(X / sqrt 2)            U(X)                    as in self-attention
//   k, v, the same          U(X / sqrt 2)            U(X sqrt(2/3))          as in self-attention
//   out                     U(X)                     U(X)                    U(f X)
//   biases of q, k, v       U(width^-1/2)            0                       0
//   bias of out             0                        0                       0
//   fc1, fc2                U(in^-1/2), biases too   U(X), biases 0          U(f X), biases 0
//
//   xavier is Xavier's bound for every matrix as PyTorch programs usually hold it: q, k and v of self-attention as one
//   matrix, k and v of attention to the source as one.
//
//   f = 0.67 N^-1/4 in an encoder of N layers, (9 M)^-1/4 in a decoder of M layers; e = (9 N)^-1/4 for a table that the
//   encoder reads, (9 M)^-1/4 for the decoder's own. Huang et al., "Improving Transformer Optimization Through Better
//   Initialization" (2020), with the constants of the authors' code (layer6ai-labs/T-Fixup).
//   A normalizer's initial_gain() multiplies the weights of v, out, fc1 and fc2 in either.
#pragma once
#include "models/transformer/transformer.h"

namespace foldgrad {

// Fills the parameters. Is called by the constructor, after normalizers have set their own.
void initialize(Transformer& model, std::uint64_t seed);

}  // namespace foldgrad
