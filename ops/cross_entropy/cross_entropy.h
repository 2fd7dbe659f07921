// Cross entropy of softmax(logits) against one class per row, with label smoothing: the target distribution has 1 - eps
// on the given class t_n and eps_i = eps / (V - 1) on each other (fairseq 1.0.0a0; older versions of it spread eps over
// all V classes, as torch.nn.functional.cross_entropy does).
//
//   [CE-1]  m_n    = max_v z_nv         S_n = sum_v exp(z_nv - m_n)         -log p_nv = log S_n - (z_nv - m_n)
//   [CE-2]  loss_n = (1 - eps - eps_i) (-log p_nt) + eps_i sum_v (-log p_nv)
//                  = log S_n - (1 - eps - eps_i) (z_nt - m_n) - eps_i sum_v (z_nv - m_n)
//   [CE-3]  loss   = weight sum_n loss_n over the n with t_n != ignore_index; weight is 1 for a sum, and for a mean one
//                    over the number of such n
//
//   backward, with q_nv = 1 - eps for v = t_n and eps_i otherwise:
//   [CE-4]  dz_nv  = dloss weight (exp(z_nv - m_n) / S_n - q_nv)            and 0 where t_n = ignore_index
//
//   Two classes per row, as mixed images have them (Zhang et al.: "mixup", 2018; Yun et al.: "CutMix", 2019), t_n with
//   the share lambda_n and u_n with the rest:
//   [CE-5]  loss_n = lambda_n loss_n(t_n) + (1 - lambda_n) loss_n(u_n), where loss_n(t) is that of CE-2
//   [CE-6]  q_nv   = (1 - eps - eps_i) (lambda_n [v = t_n] + (1 - lambda_n) [v = u_n]) + eps_i        in CE-4
//
//   logits z: [..., V] seen as [N, V]; targets t, u: i64 [...]; lambda: f32 [...], a constant; loss: scalar, f64 for
//   f64 logits, otherwise f32. Without any counted target the loss is 0, and so are the gradients. The sum over n has a
//   fixed order. No second tensor of V columns is made but the gradient, which is written over the logits where nobody
//   else holds them. Saved: logits, targets, lambda, m [N], S [N], weight.
//   Derivation: docs/derivations/cross_entropy.md.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

enum class Reduction { sum, mean };

struct CrossEntropyOptions {
  double label_smoothing = 0;  // eps, in [0, 1)
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

// Throws std::invalid_argument for targets that do not fit the logits, for a label_smoothing outside [0, 1) or one of
// fewer than two classes, and on the CPU for a target outside [0, V). On CUDA, where looking would make the host wait,
// such a target makes the loss NaN, if its share is not 0.
Var cross_entropy(const Var& logits, const Var& targets, const CrossEntropyOptions& options = {});

// Takes two targets per row, which counts unless its first one is ignored. On the CPU lambda must be in [0, 1] where
// rows count. Backward throws std::invalid_argument if lambda wants a gradient.
Var cross_entropy(const Var& logits, const Var& targets, const Var& second_targets, const Var& lambda,
                  const CrossEntropyOptions& options = {});

}  // namespace foldgrad
