// Cross entropy of softmax(logits) against one class per row, with label smoothing. The target probability is 1 - eps
// for the given class t_n and eps_i = eps / (V - 1) for each other class, as in fairseq 1.0.0a0. Older versions of
// fairseq spread eps over all V classes, as torch.nn.functional.cross_entropy does.
//
//   [CE-1]  m_n    = max_v z_nv         S_n = sum_v exp(z_nv - m_n)         -log p_nv = log S_n - (z_nv - m_n)
//   [CE-2]  loss_n = (1 - eps - eps_i) (-log p_nt) + eps_i sum_v (-log p_nv)
//                  = log S_n - (1 - eps - eps_i) (z_nt - m_n) - eps_i sum_v (z_nv - m_n)
//   [CE-3]  loss   = weight sum_n loss_n over the n with t_n != ignore_index; weight is 1 for a sum, and
//                    1 / (number of such n) for a mean
//
//   backward, with q_nv = 1 - eps for v = t_n and eps_i otherwise:
//   [CE-4]  dz_nv  = dloss weight (exp(z_nv - m_n) / S_n - q_nv)            and 0 where t_n = ignore_index
//
//   A row may have two classes, for mixed images (Zhang et al.: "mixup", 2018; Yun et al.: "CutMix", 2019). Class t_n
//   then has the share lambda_n, and class u_n has the rest:
//   [CE-5]  loss_n = lambda_n loss_n(t_n) + (1 - lambda_n) loss_n(u_n), where loss_n(t) is as in CE-2
//   [CE-6]  q_nv   = (1 - eps - eps_i) (lambda_n [v = t_n] + (1 - lambda_n) [v = u_n]) + eps_i        in CE-4
//
//   logits z: [..., V] seen as [N, V]; targets t, u: i64 [...]; lambda: f32 [...], a constant; loss: scalar, f64 for
//   f64 logits, otherwise f32. If all targets are ignored, the loss and the gradients are 0. The sum over n has a fixed
//   order. Besides the logits, only their gradient has V columns; it reuses the memory of the logits if nothing else
//   needs them. Saved: logits, targets, lambda, m [N], S [N], weight.
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

// Throws std::invalid_argument for targets that do not fit the logits, for a label_smoothing outside [0, 1), for
// smoothing with fewer than two classes, and on the CPU for a target outside [0, V). On CUDA, a check would make the
// host wait; there, such a target makes the loss NaN unless its share is 0.
Var cross_entropy(const Var& logits, const Var& targets, const CrossEntropyOptions& options = {});

// Takes two targets per row. A row is ignored if its first target is ignored. On the CPU, lambda must be in [0, 1]
// unless the row is ignored. Backward throws std::invalid_argument if lambda needs a gradient.
Var cross_entropy(const Var& logits, const Var& targets, const Var& second_targets, const Var& lambda,
                  const CrossEntropyOptions& options = {});

}  // namespace foldgrad
