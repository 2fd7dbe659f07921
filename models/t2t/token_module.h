// A token module of T2T-ViT: attention among the tokens of a map, then a feed-forward block. The result of attention is
// added to the values, not to the input.
//
//   [T2T-2]  u = v + drop(P a + b)       k, q, v from norm1(x) by one layer, in this order; with softmax q, k, v
//   [T2T-3]  result = u + drop(W_2 gelu(W_1 norm2(u) + b_1) + b_2)
//
//   With softmax, a is attention [ATT-3] with one head and the scale 1 / sqrt(columns of x). With Performer
//   (Choromanski et al.: "Rethinking Attention with Performers", ICLR 2021) the weight of key s for query t is an inner
//   product of positive features, so that no T x T matrix is needed:
//
//   [T2T-4]  f_i(x) = exp(w_i . x - |x|^2 / 2),  i = 0 ... m - 1
//   [T2T-5]  a_t = n_t / (d_t + m eps),  n_t = sum_s (f(q_t) . f(k_s)) v_s,  d_t = sum_s f(q_t) . f(k_s)
//
//   eps is 1e-8. The published features have a factor m^-1/2, which we leave out; n, d and eps are therefore m times as
//   large in [T2T-5]. The rows w_i are orthogonal, have length sqrt(m), and are not trained. Features are computed in
//   f32 if activations are bf16. Because w_i . x - |x|^2 / 2 is at most |w_i|^2 / 2 = m / 2, features do not overflow
//   if m is small. They shrink as |x| grows: for keys of large norm, d_t falls below m eps, and a and its gradients
//   vanish.
//
//   x is [B N, in], N tokens for each of B images. q, k, v, a, u and the result are [B N, e]. w is [m, e], m = e / 2.
#pragma once
#include "models/blocks/layers.h"
#include "models/t2t/config.h"

namespace foldgrad {

class TokenModule {
 public:
  // A parameter's name is `name`, a dot and the authors' name: kqv, proj, w, norm1, norm2, mlp.0, mlp.2; with softmax,
  // attn.qkv, attn.proj, norm1, norm2, mlp.fc1, mlp.fc2.
  TokenModule(const T2tConfig& config, const std::string& name, std::int64_t in, DType dtype, Device device);

  // Runs the module on x [B N, in], whose images are `rows`. Returns [B N, e].
  Var operator()(const Var& x, const Segments& rows, const ForwardPass& pass);
  void list(ModelParts& parts);
  // Fills w, which only modules with a Performer have, and leaves all other parameters unchanged.
  void initialize(std::uint64_t seed);
  // With a Performer, adds diagnostics of the last training pass, named MODULE.mean_key_length, .greatest_key_length,
  // .least_denominator and .median_denominator (of d_t / m), and .below_eps, the fraction of tokens with d_t < m eps.
  void diagnose(std::map<std::string, double>& all) const;

 private:
  Var performer(const Var& k, const Var& q, const Var& v, const Segments& rows, const ForwardPass& pass);

  std::string name_;
  std::int64_t width_;
  double scale_, dropout_;
  std::uint32_t stream_;
  std::unique_ptr<Normalizer> norm_;
  LinearLayer qkv_, proj_;
  Parameter w_;  // its value is undefined with softmax attention
  FeedForwardBlock feed_forward_;
  Tensor keys_, divisors_;  // k and d of the last training pass
};

}  // namespace foldgrad
