// foldgrad in one file, to read from top to bottom: automatic differentiation, Unified Normalization, and its folding.
//
//   g++ -std=c++20 -O2 book/tiny.cpp -o tiny && ./tiny
//
//   1  Tensor      a matrix
//   2  Tape        the backward passes of the operations, in the order of the forward pass
//   3  Operations  linear, add, relu, layer_norm, cross_entropy: each with a forward and a backward pass
//   4  UN          an operation with memory: windows, averages, outliers
//   5  Model       residual blocks as in a Transformer, without attention
//   6  Folding     UN disappears into the linear layers after it
//   7  Training    two spirals, told apart by the trained model and by the folded one
//
// Tags such as [UN-16] are explained in docs/equations.md; in the engine, the line that computes the same has the same
// tag. docs/engine.md is the course for this file. tests/book/ compares each operation with the engine's.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tiny {

// ---- 1 Tensor ----------------------------------------------------------------------------------------------------
// A matrix. A batch is [rows, channels], one example per row; a vector is [1, channels].
struct Tensor {
  Tensor(int rows = 0, int columns = 0, double v = 0) : rows(rows), columns(columns), values(rows * columns, v) {}

  int rows, columns;
  std::vector<double> values;

  double& operator()(int r, int c) { return values[r * columns + c]; }
  double operator()(int r, int c) const { return values[r * columns + c]; }
  double& operator[](int i) { return values[i]; }
  double operator[](int i) const { return values[i]; }
  int size() const { return rows * columns; }
};

// Throws std::invalid_argument unless `t` is [rows, columns].
void check_shape(const std::string& what, const Tensor& t, int rows, int columns) {
  if (t.rows == rows && t.columns == columns) return;
  const auto shape = [](int r, int c) { return "[" + std::to_string(r) + ", " + std::to_string(c) + "]"; };
  throw std::invalid_argument(what + " must be " + shape(rows, columns) + ", got " + shape(t.rows, t.columns));
}

// ---- 2 Tape ------------------------------------------------------------------------------------------------------
// A value and dL/dvalue, the derivative of the loss L. Inputs, parameters and results are all such variables.
struct Value {
  Tensor value, grad;
};
using Var = std::shared_ptr<Value>;

Var variable(const Tensor& value) { return std::make_shared<Value>(Value{value, Tensor(value.rows, value.columns)}); }

// Each operation computes its result y and records its backward pass here: a function that reads dL/dy and *adds* to
// the gradients of its operands. It must add, because an operand may have other uses, and the chain rule sums over
// them. An operation is recorded after the operations that computed its operands, so the reverse order is a valid order
// for derivatives: when a backward pass runs, all uses of its y have contributed to dL/dy.
class Tape {
 public:
  void record(std::function<void()> backward) { backwards_.push_back(std::move(backward)); }

  // Adds dL/dv to the gradient of every v on which the loss, a single number, depends.
  void backward(const Var& loss) {
    check_shape("the loss", loss->value, 1, 1);
    loss->grad[0] = 1;
    for (auto step = backwards_.rbegin(); step != backwards_.rend(); ++step) (*step)();
    backwards_.clear();
  }

 private:
  std::vector<std::function<void()>> backwards_;
};

// ---- 3 Operations ------------------------------------------------------------------------------------------------
// A name that begins with d is a derivative of the loss: dy is dL/dy. r is the index of a row, c that of a channel.

// Returns y = x W^T + b [rows, out] for x [rows, in], W [out, in] and b [1, out].
Var linear(Tape& tape, const Var& x, const Var& W, const Var& b) {
  const int rows = x->value.rows, in = x->value.columns, out = W->value.rows;
  check_shape("linear: W", W->value, out, in);
  check_shape("linear: b", b->value, 1, out);
  const Var y = variable(Tensor(rows, out));
  for (int r = 0; r < rows; ++r)
    for (int o = 0; o < out; ++o) {
      double sum = 0;
      for (int i = 0; i < in; ++i) sum += x->value(r, i) * W->value(o, i);
      y->value(r, o) = sum + b->value[o];  // [LIN-1]
    }
  tape.record([=] {
    const Tensor& dy = y->grad;
    for (int r = 0; r < rows; ++r)
      for (int o = 0; o < out; ++o) {
        for (int i = 0; i < in; ++i) x->grad(r, i) += dy(r, o) * W->value(o, i);  // [LIN-2]
        for (int i = 0; i < in; ++i) W->grad(o, i) += dy(r, o) * x->value(r, i);  // [LIN-3]
        b->grad[o] += dy(r, o);                                                   // [LIN-4]
      }
  });
  return y;
}

// Returns y = a + b.
Var add(Tape& tape, const Var& a, const Var& b) {
  check_shape("add: b", b->value, a->value.rows, a->value.columns);
  const Var y = variable(a->value);
  for (int i = 0; i < y->value.size(); ++i) y->value[i] += b->value[i];  // [AR-1]
  tape.record([=] {
    for (int i = 0; i < y->grad.size(); ++i) {
      a->grad[i] += y->grad[i];
      b->grad[i] += y->grad[i];
    }
  });
  return y;
}

// Returns y = max(x, 0).
Var relu(Tape& tape, const Var& x) {
  const Var y = variable(x->value);
  for (double& v : y->value.values) v = v < 0 ? 0 : v;  // [ACT-1]
  tape.record([=] {
    for (int i = 0; i < y->grad.size(); ++i)
      if (y->value[i] > 0) x->grad[i] += y->grad[i];
  });
  return y;
}

// Shifts and scales each row to mean 0 and variance 1, then scales and shifts each channel by gamma and beta. Each row
// has its own statistics, even at inference, so layer norm can never be folded away.
Var layer_norm(Tape& tape, const Var& x, const Var& gamma, const Var& beta, double eps = 1e-5) {
  const int rows = x->value.rows, C = x->value.columns;
  check_shape("layer_norm: gamma", gamma->value, 1, C);
  check_shape("layer_norm: beta", beta->value, 1, C);
  const Var y = variable(Tensor(rows, C));
  Tensor xhat{rows, C}, rstd{rows, 1};
  for (int r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (int c = 0; c < C; ++c) sum += x->value(r, c);
    const double mu = sum / C;
    for (int c = 0; c < C; ++c) squares += (x->value(r, c) - mu) * (x->value(r, c) - mu);  // [LN-1]
    rstd[r] = 1 / std::sqrt(squares / C + eps);
    for (int c = 0; c < C; ++c) {
      xhat(r, c) = (x->value(r, c) - mu) * rstd[r];                    // [LN-2]
      y->value(r, c) = gamma->value[c] * xhat(r, c) + beta->value[c];  // [LN-3]
    }
  }
  tape.record([=] {
    for (int r = 0; r < rows; ++r) {
      double sum_h = 0, sum_h_xhat = 0;  // h is the derivative with respect to xhat
      for (int c = 0; c < C; ++c) {
        const double dy = y->grad(r, c), h = dy * gamma->value[c];
        gamma->grad[c] += dy * xhat(r, c);  // [LN-5]
        beta->grad[c] += dy;
        sum_h += h;
        sum_h_xhat += h * xhat(r, c);
      }
      for (int c = 0; c < C; ++c) {
        const double h = y->grad(r, c) * gamma->value[c];
        x->grad(r, c) += rstd[r] * (h - sum_h / C - xhat(r, c) * (sum_h_xhat / C));  // [LN-4]
      }
    }
  });
  return y;
}

// Returns the mean over the rows of -log p(target), where p = softmax(logits).
Var cross_entropy(Tape& tape, const Var& logits, const std::vector<int>& targets) {
  const int rows = logits->value.rows, classes = logits->value.columns;
  if (int(targets.size()) != rows) throw std::invalid_argument("cross_entropy: there must be one target for each row");
  const Var loss = variable(Tensor(1, 1));
  Tensor exps{rows, classes}, sum{rows, 1};
  double total = 0;
  for (int r = 0; r < rows; ++r) {
    double m = logits->value[r];  // the maximum, subtracted because exp() of a large logit would be infinite
    for (int v = 1; v < classes; ++v) m = std::max(m, logits->value(r, v));
    for (int v = 0; v < classes; ++v) exps(r, v) = std::exp(logits->value(r, v) - m);
    for (int v = 0; v < classes; ++v) sum[r] += exps(r, v);          // [CE-1]
    total += std::log(sum[r]) - (logits->value(r, targets[r]) - m);  // [CE-2]
  }
  const double weight = 1.0 / rows;
  loss->value[0] = total * weight;  // [CE-3]
  tape.record([=] {
    for (int r = 0; r < rows; ++r) {
      const double inverse = 1 / sum[r];
      for (int v = 0; v < classes; ++v) {
        const double q = v == targets[r] ? 1 : 0;
        logits->grad(r, v) += loss->grad[0] * weight * (exps(r, v) * inverse - q);  // [CE-4]
      }
    }
  });
  return loss;
}

// ---- 4 UN --------------------------------------------------------------------------------------------------------
// Unified Normalization divides each channel by the root of its mean square over the batch, as batch normalization
// does, but smooths that statistic over the last M iterations, in both passes. At inference a running average takes its
// place: y = A x + B with constants A and B, which is what makes folding possible.
// Yang et al., "Unified Normalization for Accelerating and Stabilizing Transformers" (2022), Algorithm 2.

using Window = std::vector<double>;  // one channel's values from the last M iterations

double arithmetic_mean(const Window& w) {
  double sum = 0;
  for (double v : w) sum += v;
  return sum / double(w.size());
}
double geometric_mean(const Window& w) {
  double logs = 0;
  for (double v : w) logs += std::log(std::max(v, 1e-38));  // avoids log(0)
  return std::exp(logs / double(w.size()));                 // [UN-16]
}
double variance_of_roots(const Window& w) {
  double sum = 0, squares = 0;
  for (double v : w) sum += std::sqrt(v);
  const double mean = sum / double(w.size());
  for (double v : w) squares += (std::sqrt(v) - mean) * (std::sqrt(v) - mean);
  return squares / double(w.size() - 1);
}

// The options and state of one layer. Copies share only gamma and beta.
struct UnifiedNorm {
  int C, M = 4;            // channels; iterations in a window
  int warmup = 100;        // the first iteration that uses averages
  double alpha = 0.9;      // weight of the old value in running averages
  double eps = 1e-5;       // added to a variance before its root is taken
  bool filtration = true;  // skip outliers

  Var gamma = variable(Tensor(1, C, 1)), beta = variable(Tensor(1, C));
  Tensor run_var = Tensor(1, C, 1), psi_ema = Tensor(1, C);  // running averages of var_hat and of G
  Tensor win_sq = Tensor(M, C), win_g = Tensor(M, C);        // the last M q and G; iteration t is in row t mod M
  int iters = 0, skips = 0;                                  // iterations so far; outliers among them
};

Window column(const Tensor& t, int c) {
  Window w;
  for (int k = 0; k < t.rows; ++k) w.push_back(t(k, c));
  return w;
}

// Returns true if q has an outlier. AM - GM, the gap between the means of a channel's window with q in it, is 0 if all
// entries are equal and large if one stands out. The threshold is M times the variance of the roots in all channels'
// windows without q. If one channel exceeds it, the whole layer skips. Example: M = 4, all windows {1, 1, 1, 1}, one q
// = 16: AM 4.75, GM 2, gap 2.75, threshold 0.
bool is_outlier(const UnifiedNorm& un, const std::vector<double>& q, int slot) {
  const double threshold = un.M * variance_of_roots(un.win_sq.values);
  for (int c = 0; c < un.C; ++c) {
    Window window = column(un.win_sq, c);
    window[slot] = q[c];
    if (arithmetic_mean(window) - geometric_mean(window) > threshold) return true;  // [UN-19]
  }
  return false;
}

// Runs one training iteration on x [rows, C]. Both passes write to `un`, which must outlive the tape.
Var unified_norm(Tape& tape, const Var& x, UnifiedNorm& un) {
  const int rows = x->value.rows, C = un.C, t = ++un.iters, slot = t % un.M;
  check_shape("unified_norm: x", x->value, rows, C);
  std::vector<double> q(C), rstd(C);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < C; ++c) q[c] += x->value(r, c) * x->value(r, c);
  for (double& v : q) v /= rows;  // [CN-1]

  const bool active = t >= un.warmup && t > un.M && un.M > 1;  // warmed up, with M > 1 earlier values
  const bool skip = active && un.filtration && is_outlier(un, q, slot);
  const bool smooth = active && !skip;  // if false, this step uses only this batch, and its gradient is exact
  un.skips += skip;
  const Var y = variable(Tensor(rows, C));
  for (int c = 0; c < C; ++c) {
    un.win_sq(slot, c) = q[c];
    const double var_hat = smooth ? geometric_mean(column(un.win_sq, c)) : q[c];
    if (skip) un.win_sq(slot, c) = un.run_var[c];  // the window does not record an outlier
    un.run_var[c] = un.alpha * un.run_var[c] + (1 - un.alpha) * var_hat;
    rstd[c] = 1 / std::sqrt(var_hat + un.eps);
    const double gain = un.gamma->value[c] * rstd[c];
    for (int r = 0; r < rows; ++r) y->value(r, c) = gain * x->value(r, c) + un.beta->value[c];  // [UN-1]
  }
  tape.record([=, &un] {
    for (int c = 0; c < C; ++c) {
      double sum_dy = 0, sum_dy_x = 0;
      for (int r = 0; r < rows; ++r) {
        sum_dy += y->grad(r, c);
        sum_dy_x += y->grad(r, c) * x->value(r, c);
      }
      const double gamma = un.gamma->value[c], dgamma = rstd[c] * sum_dy_x;  // dgamma = sum of dy z, with z = x rstd
      un.gamma->grad[c] += dgamma;                                           // [CN-3]
      un.beta->grad[c] += sum_dy;
      const double G = gamma * dgamma / rows;  // the gradient statistic: the mean of h z, with h = gamma dy
      un.win_g(slot, c) = G;
      const double m = smooth ? arithmetic_mean(column(un.win_g, c)) : G;
      if (skip) un.win_g(slot, c) = un.psi_ema[c];
      un.psi_ema[c] = un.alpha * un.psi_ema[c] + (1 - un.alpha) * m;  // [UN-17]
      const double psi = smooth ? un.psi_ema[c] : G;
      for (int r = 0; r < rows; ++r)  // dx = (h - z psi) rstd
        x->grad(r, c) += gamma * rstd[c] * y->grad(r, c) - psi * rstd[c] * rstd[c] * x->value(r, c);  // [CN-2]
    }
  });
  return y;
}

// UN at inference: y = A x + B per channel, with constants A and B [1, C].
struct AffineMap {
  Tensor A, B;

  Tensor operator()(Tensor x) const {
    for (int r = 0; r < x.rows; ++r)
      for (int c = 0; c < x.columns; ++c) x(r, c) = A[c] * x(r, c) + B[c];
    return x;
  }
};
AffineMap inference_form(const UnifiedNorm& un) {
  AffineMap map{un.gamma->value, un.beta->value};
  for (int c = 0; c < un.C; ++c) map.A[c] *= 1 / std::sqrt(un.run_var[c] + un.eps);  // [CN-4]
  return map;
}

// ---- 5 Model -----------------------------------------------------------------------------------------------------
using Random = std::mt19937;
double uniform(Random& random, double low, double high) { return low + (high - low) * random() / 4294967296.0; }

enum class Norm { none, layer, unified };

// linear(norm(x)). Only the linear layer reads the normalizer's result.
struct Layer {
  Norm norm;
  UnifiedNorm un;  // its gamma and beta also serve layer_norm
  Var W, b;

  Layer(Norm norm, int in, int out, Random& random)
      : norm(norm), un{in}, W(variable(Tensor(out, in))), b(variable(Tensor(1, out))) {
    const double bound = std::sqrt(6.0 / (in + out));  // Glorot, Bengio 2010: values keep their scale
    for (double& w : W->value.values) w = uniform(random, -bound, bound);
  }
  Var operator()(Tape& tape, const Var& x, bool training) { return linear(tape, normalized(tape, x, training), W, b); }

  // At inference UN's result is a new variable, so no gradient flows back through the map.
  Var normalized(Tape& tape, const Var& x, bool training) {
    if (norm == Norm::none) return x;
    if (norm == Norm::layer) return layer_norm(tape, x, un.gamma, un.beta);
    return training ? unified_norm(tape, x, un) : variable(inference_form(un)(x->value));
  }
};

// Two blocks x + W2 relu(W1 norm(x)), like the second half of a Transformer layer, and a final normalizer before the
// classifier. Copies share parameters, but each has its own windows and averages.
struct Model {
  Layer embed;
  std::vector<std::pair<Layer, Layer>> blocks;
  Layer head;

  Model(Norm norm, int width, int hidden, Random& random)
      : embed(Norm::none, 2, width, random), head(norm, width, 2, random) {
    for (int i = 0; i < 2; ++i)
      blocks.push_back({Layer(norm, width, hidden, random), Layer(Norm::none, hidden, width, random)});
  }
  // Returns the logits [rows, 2] of points [rows, 2].
  Var operator()(Tape& tape, const Var& points, bool training) {
    Var x = embed(tape, points, training);
    for (auto& [in, out] : blocks) x = add(tape, x, out(tape, relu(tape, in(tape, x, training)), training));
    return head(tape, x, training);
  }
  std::vector<Layer*> layers() {
    std::vector<Layer*> all{&embed};
    for (auto& [in, out] : blocks) all.insert(all.end(), {&in, &out});
    all.push_back(&head);
    return all;
  }
  std::vector<Var> parameters() {
    std::vector<Var> all;
    for (Layer* l : layers()) all.insert(all.end(), {l->un.gamma, l->un.beta, l->W, l->b});
    return all;
  }
};

// ---- 6 Folding ---------------------------------------------------------------------------------------------------
// Merges two consecutive affine maps into one: W (A x + B) + b = (W diag(A)) x + (b + W B).
void fold(const AffineMap& map, Tensor& W, Tensor& b) {
  for (int o = 0; o < W.rows; ++o) {
    double sum = 0;
    for (int i = 0; i < W.columns; ++i) sum += W(o, i) * map.B[i];  // of the old W
    b[o] += sum;
    for (int i = 0; i < W.columns; ++i) W(o, i) *= map.A[i];  // [FOLD-1]
  }
}

// Returns a copy of `trained` without the normalizers that are affine maps. Does not change `trained`.
Model folded(const Model& trained) {
  Model model = trained;
  for (Layer* l : model.layers()) {
    if (l->norm != Norm::unified) continue;
    l->W = variable(l->W->value);
    l->b = variable(l->b->value);
    fold(inference_form(l->un), l->W->value, l->b->value);
    l->norm = Norm::none;
  }
  return model;
}

// ---- 7 Training --------------------------------------------------------------------------------------------------
struct Points {
  Tensor at;                // [rows, 2]
  std::vector<int> spiral;  // 0 or 1
};

// Returns points on two spirals. The second is the first, rotated by half a turn; both have a little noise.
Points spirals(int rows, Random& random) {
  const double pi = 3.14159265358979;
  Points points{Tensor(rows, 2), {}};
  for (int r = 0; r < rows; ++r) {
    const double length = uniform(random, 0.1, 1), angle = 3 * pi * length + r % 2 * pi;
    points.at(r, 0) = length * std::cos(angle) + uniform(random, -0.02, 0.02);
    points.at(r, 1) = length * std::sin(angle) + uniform(random, -0.02, 0.02);
    points.spiral.push_back(r % 2);
  }
  return points;
}

// Returns the loss of a training step and, if `backward`, computes its gradients.
double loss_of(Model& model, const Points& batch, bool backward) {
  Tape tape;
  const Var loss = cross_entropy(tape, model(tape, variable(batch.at), /*training=*/true), batch.spiral);
  if (backward) tape.backward(loss);
  return loss->value[0];
}

// Compares gradients with difference quotients (L(w + d) - L(w - d)) / 2d for every 20th weight, and returns the
// largest difference. Computes each loss on a copy, since a training step changes UN's memory.
double gradient_error(Model& model, const Points& batch) {
  const auto loss_of_copy = [&](bool backward) {
    Model copy = model;
    return loss_of(copy, batch, backward);
  };
  loss_of_copy(/*backward=*/true);
  double largest = 0;
  for (const Var& p : model.parameters()) {
    for (int i = 0; i < p->value.size(); i += 20) {
      const double w = p->value[i], d = 1e-5;
      p->value[i] = w + d;
      const double above = loss_of_copy(/*backward=*/false);
      p->value[i] = w - d;
      const double below = loss_of_copy(/*backward=*/false);
      p->value[i] = w;
      largest = std::max(largest, std::fabs(p->grad[i] - (above - below) / (2 * d)));
    }
    p->grad = Tensor(p->grad.rows, p->grad.columns);
  }
  return largest;
}

// Takes one step of gradient descent.
void update(Model& model, double rate) {
  for (const Var& p : model.parameters())
    for (int i = 0; i < p->value.size(); ++i) {
      p->value[i] -= rate * p->grad[i];
      p->grad[i] = 0;  // for the next step, since backward passes add
    }
}

// Prints how many points a model classifies correctly. Returns its logits.
Tensor test(const char* what, Model& model, const Points& points) {
  Tape tape;
  const Tensor logits = model(tape, variable(points.at), /*training=*/false)->value;
  int right = 0, normalizers = 0;
  for (int r = 0; r < logits.rows; ++r) right += (logits(r, 1) > logits(r, 0)) == (points.spiral[r] == 1);
  for (const Layer* l : model.layers()) normalizers += l->norm != Norm::none;
  std::printf("  %s: %d normalizers, accuracy %.1f %%\n", what, normalizers, 100.0 * right / logits.rows);
  return logits;
}

void run(Norm norm) {
  std::printf("%s norm\n", norm == Norm::layer ? "layer" : "unified");
  Random random(1);
  Model model(norm, /*width=*/16, /*hidden=*/32, random);
  for (int step = 1; step <= 1000; ++step) {
    Points batch = spirals(64, random);
    if (step == 50 || step == 250)
      std::printf("  step %4d  gradient error %.0e, by difference quotients\n", step, gradient_error(model, batch));
    if (step == 600)  // an accident: a batch whose values are a hundred times too large
      for (double& v : batch.at.values) v *= 100;
    const double loss = loss_of(model, batch, /*backward=*/true);
    update(model, /*rate=*/0.03);
    if (step == 1 || step % 200 == 0) std::printf("  step %4d  loss %.4f\n", step, loss);
  }
  Model without = folded(model);
  const Points points = spirals(1000, random);
  const Tensor before = test("trained", model, points), after = test("folded", without, points);
  double difference = 0;
  for (int i = 0; i < before.size(); ++i) difference = std::max(difference, std::fabs(before[i] - after[i]));
  std::printf("  logits differ by %.0e; outlier steps of the last normalizer: %d\n", difference, model.head.un.skips);
}

}  // namespace tiny

int main() {
  tiny::run(tiny::Norm::layer);
  tiny::run(tiny::Norm::unified);
  return 0;
}
