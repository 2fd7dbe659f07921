#include "tests/harness/generators.h"

#include <fmt/ranges.h>

#include <cmath>

namespace foldgrad::testing {
namespace {

double rounded(double v, int digits) { return std::strtod(fmt::format("{:.{}g}", v, digits).c_str(), nullptr); }
int exponent(double v) { return v == 0 ? 0 : int(std::floor(std::log10(std::fabs(v)))); }

// Returns v after edit `k`, which must not be the last one: scale() makes that edit.
double edited(double v, int k) {
  switch (k) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return std::fabs(v);
    case 3:
      return std::trunc(v);
    default:
      return rounded(v, k - 3);
  }
}
// Returns a measure of v's length: the number of digits without leading and trailing zeros, plus the magnitude of the
// exponent, plus 1 for a minus sign.
int characters(double v) {
  if (!std::isfinite(v)) return 400;
  int digits = 0, zeros = 0;
  for (const char c : fmt::format("{}", v)) {
    if (c == 'e') break;
    if (c < '0' || c > '9' || (c == '0' && digits == 0)) continue;
    zeros = c == '0' ? zeros + 1 : 0;
    ++digits;
  }
  return digits - zeros + std::abs(exponent(v)) + (v < 0);
}
bool simpler(double a, double b) {
  const int na = characters(a), nb = characters(b);
  return na < nb || (na == nb && std::fabs(a) < std::fabs(b));
}
// Multiplies all numbers by the power of ten that brings the largest to [1, 10). Returns true if that saves characters.
bool scale(const std::vector<double*>& numbers) {
  int largest = -400, characters_before = 0, characters_after = 0;
  for (const double* v : numbers) largest = std::max(largest, *v == 0 || !std::isfinite(*v) ? -400 : exponent(*v));
  for (const double* v : numbers) characters_before += characters(*v);
  for (double* v : numbers) {
    *v = rounded(*v * std::pow(10., -largest), 15);
    characters_after += characters(*v);
  }
  return characters_after < characters_before;
}

double uniform(Rng& rng) { return std::uniform_real_distribution<double>()(rng); }
double normal(Rng& rng) { return std::normal_distribution<double>()(rng); }

Entries draw_window(Rng& rng, int shortest, bool zeros) {
  const int sizes[] = {1, 2, 3, 4, 6, 8, 10, 16};
  const int M = std::max(sizes[below(rng, 8)], shortest), family = below(rng, 16);
  const double scale = std::pow(10., 12 * uniform(rng) - 6), spread = std::pow(10., 4 * uniform(rng) - 3);
  Entries a(std::size_t(M), scale);
  for (double& v : a) {
    if (family == 0) continue;
    v *= family < 5 ? uniform(rng) : std::exp(spread * normal(rng));
  }
  if (family >= 12) a[std::size_t(below(rng, M))] *= std::pow(10., 8 * uniform(rng) - 4);
  if (zeros && family % 4 == 3) a[std::size_t(below(rng, M))] = 0;
  if (zeros && family == 11) std::fill(a.begin() + 1, a.end(), 0);
  return a;
}

template <class Numbers>
std::vector<double*> pointers(Numbers& numbers) {
  std::vector<double*> all;
  for (double& v : numbers) all.push_back(&v);
  return all;
}
void erase(Entries& a, std::size_t begin, std::size_t end) {
  a.erase(a.begin() + std::ptrdiff_t(begin), a.begin() + std::ptrdiff_t(end));
}

}  // namespace

bool simplify(std::vector<double*> numbers, int k, bool zeros) {
  if (k == kEditsOfNumber - 1) return scale(numbers);
  bool changed = false;
  for (double* v : numbers) {
    const double w = edited(*v, k) + 0.0;  // -0 becomes 0
    if (!simpler(w, *v) || (w == 0 && !zeros)) continue;
    *v = w;
    changed = true;
  }
  return changed;
}

void showValue(const Entries& a, std::ostream& out) { out << fmt::format("[{}]", fmt::join(a, ", ")); }
void showValue(const Arrival& a, std::ostream& out) {
  out << fmt::format("{} in place of entry {} of [{}]", a.q, a.slot, fmt::join(a.before, ", "));
}

rc::Gen<Entries> any_window(int shortest, bool zeros) {
  return shrinking<Entries>([=](Rng& rng) { return draw_window(rng, shortest, zeros); },
                            [=](const Entries& a) {
                              std::vector<Edit<Entries>> edits;
                              add_edits_of_length<Entries>(edits, a.size(),
                                                           [=](Entries& b, std::size_t begin, std::size_t end) {
                                                             erase(b, begin, end);
                                                             return b.size() >= std::size_t(shortest);
                                                           });
                              add_edits_of_numbers<Entries>(edits, a.size(), pointers<Entries>, zeros);
                              return edits;
                            })
      .as("window");
}

rc::Gen<Arrival> any_arrival() {
  const auto draw = [](Rng& rng) {
    Arrival a{draw_window(rng, 2, /*zeros=*/false), 0, 0};
    a.slot = below(rng, int(a.before.size()));
    a.q = a.replaced() * std::pow(10., 6 * uniform(rng) - 3);
    return a;
  };
  const auto edits_of = [](const Arrival& a) {
    std::vector<Edit<Arrival>> edits;
    add_edits_of_length<Arrival>(edits, a.before.size(), [](Arrival& b, std::size_t begin, std::size_t end) {
      const std::size_t slot = std::size_t(b.slot);
      if (slot >= begin && slot < end) return false;
      if (slot >= end) b.slot -= std::int64_t(end - begin);
      erase(b.before, begin, end);
      return b.before.size() >= 2;
    });
    edits.push_back([](Arrival& b) {
      if (b.slot == 0) return false;
      std::swap(b.before[0], b.before[std::size_t(b.slot)]);
      b.slot = 0;
      return true;
    });
    const auto numbers_of = [](Arrival& b) {
      std::vector<double*> all = pointers(b.before);
      all.push_back(&b.q);
      return all;
    };
    add_edits_of_numbers<Arrival>(edits, a.before.size() + 1, numbers_of, /*zeros=*/false);
    return edits;
  };
  return shrinking<Arrival>(draw, edits_of).as("mean square");
}

rc::Gen<Tensor> any_tensor(const Shape& shape, double scale) {
  const auto numbers_of = [](Tensor& t) {
    std::vector<double*> all;
    for (std::int64_t i = 0; i < t.shape().elements(); ++i) all.push_back(t.data<double>() + i);
    return all;
  };
  const auto draw = [=](Rng& rng) {
    Tensor t = Tensor::empty(shape, DType::f64);
    for (double* v : numbers_of(t)) *v = scale * normal(rng);
    return t;
  };
  const auto edits_of = [=](const Tensor& t) {
    std::vector<Edit<Tensor>> edits;
    add_edits_of_numbers<Tensor>(edits, std::size_t(t.shape().elements()), numbers_of);
    for (Edit<Tensor>& edit : edits)
      edit = [edit](Tensor& copy) {  // copies of a tensor share its memory
        copy = copy.clone();
        return edit(copy);
      };
    return edits;
  };
  // A property gets a clone of the drawn tensor, so writing to it does not change the counterexample.
  return rc::gen::map(shrinking<Tensor>(draw, edits_of), [](const Tensor& t) { return t.clone(); }).as("tensor");
}

rc::Gen<Shape> any_shape(int rank, std::int64_t largest) {
  const auto draw = [=](Rng& rng) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank));
    for (std::int64_t& size : sizes) size = 1 + below(rng, int(largest));
    return Shape(sizes);
  };
  const auto edits_of = [](const Shape& shape) {
    std::vector<Edit<Shape>> edits;
    for (int axis = 0; axis < shape.rank(); ++axis)
      for (std::int64_t size : {std::int64_t(1), shape[axis] / 2, shape[axis] - 1})
        edits.push_back([=](Shape& s) {
          if (size < 1 || size >= s[axis]) return false;
          s = s.with(axis, size);
          return true;
        });
    return edits;
  };
  return shrinking<Shape>(draw, edits_of).as("shape");
}

}  // namespace foldgrad::testing

namespace foldgrad {

void showValue(const Tensor& t, std::ostream& out) {
  const std::vector<double> values = t.values<double>();
  out << fmt::format("{} of {}", t.shape().str(), fmt::join(values, ", "));
}
void showValue(const Shape& shape, std::ostream& out) { out << shape.str(); }

}  // namespace foldgrad

template class rc::Gen<foldgrad::testing::Entries>;
template class rc::Gen<foldgrad::testing::Arrival>;
template class rc::Gen<foldgrad::Tensor>;
template class rc::Gen<foldgrad::Shape>;
