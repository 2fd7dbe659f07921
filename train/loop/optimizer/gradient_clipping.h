// Gradient clipping. Nothing here waits for the GPU.
//
//   By the global norm (Pascanu, Mikolov, Bengio 2013), as torch.nn.utils.clip_grad_norm_:
//   [CLIP-1]  norm   = sqrt(sum of g^2 over all elements of all gradients)
//   [CLIP-2]  factor = min(1, max_norm / (norm + 1e-6))
//
//   Adaptive (Brock et al. 2021), for every unit of every parameter: W is a unit's weights and G their gradient.
//   [AGC-1]   limit = clipping max(||W||, 1e-3)
//   [AGC-2]   G <- G limit / max(||G||, 1e-6)   where ||G|| > limit
//   A unit is a slice along the leading axis: a row of a linear layer's [out, in], an output channel of a convolution's
//   [out, in, ...]. Tensors of rank 0 and 1 are one unit. The paper does not clip the last linear layer, which would
//   otherwise learn slowly; the caller should leave it out too. Clip before weight decay and momentum, that is, before
//   the optimizer's step.
//
// Norms are summed in f64, in an order that depends only on shapes, so they are bit-identical for any number of
// threads. Both functions throw std::invalid_argument unless all parameters are f32 or f64, on one device, and have
// gradients of their shape.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

struct GradientClip {
  Tensor norm;  // the norm before clipping, f64 [] on the gradients' device. Reading it waits for the device
  // The factor for Optimizer::step, with norm's shape and device. It is NaN if norm is NaN, and 0 if norm is infinite,
  // since 0 times infinity is NaN.
  Tensor factor;
};

// Leaves the gradients unchanged. max_norm must be positive; with infinity, only the norm is computed.
GradientClip clip_by_norm(const std::vector<Parameter*>& parameters, double max_norm);

// Changes the gradients. `clipping` must be positive: 0.01 in the paper.
void clip_adaptively(const std::vector<Parameter*>& parameters, double clipping);

}  // namespace foldgrad
