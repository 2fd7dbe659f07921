// Generators of values for properties. RapidCheck shrinks a failing value until it is readable: to few numbers with few
// digits.
#pragma once
#include <functional>
#include <memory>
#include <random>

#include "engine/tensor.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {

// Knuth's 64-bit generator. Each case seeds one; seeding a Mersenne twister takes longer than most properties.
using Rng = std::linear_congruential_engine<std::uint64_t, 6364136223846793005u, 1442695040888963407u, 0>;
// Returns an integer in [0, n). Uses the upper bits, which are more random.
inline int below(Rng& rng, int n) { return int((rng() >> 32) % unsigned(n)); }

// Makes a value simpler. Returns false if the value would not become simpler.
template <class T>
using Edit = std::function<bool(T&)>;

inline constexpr int kTries = 4000;  // the number of simpler values to try for a failing value
// Returns a generator of `draw(rng)`. To shrink a failing value, RapidCheck tries `edits(value)` in order, takes the
// first result that also fails, and starts again from there, until it has tried kTries results. Edits that remove the
// most should come first.
template <class T>
rc::Gen<T> shrinking(std::function<T(Rng&)> draw, std::function<std::vector<Edit<T>>(const T&)> edits);

// The number of simplify()'s edits: replace a number with 0, 1, its absolute value or its integer part; round it to 1,
// 2 or 3 digits; multiply all numbers by one power of ten.
inline constexpr int kEditsOfNumber = 8;
// Applies edit `k` to each number that the edit makes simpler. Simpler numbers have fewer digits or a smaller exponent.
// Makes no number 0 unless `zeros` is true. Returns false if no number becomes simpler.
bool simplify(std::vector<double*> numbers, int k, bool zeros = true);

// Adds edits of `count` numbers in a value: for all of them at once, for each half, and so on down to single numbers.
template <class T>
void add_edits_of_numbers(std::vector<Edit<T>>& edits, std::size_t count,
                          const std::function<std::vector<double*>(T&)>& numbers_of, bool zeros = true) {
  for (std::size_t part = count; part > 0; part /= 2)
    for (std::size_t begin = 0; begin < count; begin += part)
      for (int k = 0; k < kEditsOfNumber; ++k)
        edits.push_back([=](T& value) {
          std::vector<double*> numbers = numbers_of(value);
          numbers.erase(numbers.begin() + std::ptrdiff_t(std::min(begin + part, count)), numbers.end());
          numbers.erase(numbers.begin(), numbers.begin() + std::ptrdiff_t(begin));
          return simplify(numbers, k, zeros);
        });
}
// Adds edits that remove parts of a sequence of `length` items: each half, each quarter, and so on down to single
// items. `remove` removes the items [begin, end), and returns false if the value needs them.
template <class T>
void add_edits_of_length(std::vector<Edit<T>>& edits, std::size_t length,
                         const std::function<bool(T&, std::size_t begin, std::size_t end)>& remove) {
  for (std::size_t part = length / 2; part > 0; part /= 2)
    for (std::size_t begin = 0; begin + part <= length; begin += part)
      edits.push_back([=](T& value) { return remove(value, begin, begin + part); });
}

// A list of numbers, for example the window of UN's outlier test, which holds the last mean squares of a channel.
struct Entries : std::vector<double> {
  using std::vector<double>::vector;
};
void showValue(const Entries& entries, std::ostream& out);  // prints [1, 0.5]

// Generates windows over many orders of magnitude, with equal, uniform or log-normal entries. In some windows, one
// entry is far from the others. With `zeros`, some windows have one 0, or only one entry that is not 0.
rc::Gen<Entries> any_window(int shortest = 1, bool zeros = true);

// A new mean square q, and the window `before`, in which q replaces entry `slot`. No entry is 0.
struct Arrival {
  Entries before;
  std::int64_t slot;
  double q;

  double replaced() const { return before[std::size_t(slot)]; }
  Entries after() const {
    Entries entries = before;
    entries[std::size_t(slot)] = q;
    return entries;
  }
};
void showValue(const Arrival& arrival, std::ostream& out);
rc::Gen<Arrival> any_arrival();  // at least two entries; q is 1/1000 to 1000 times the entry that it replaces

// Generates f64 tensors of scale * N(0, 1) on the CPU.
rc::Gen<Tensor> any_tensor(const Shape& shape, double scale = 1);
// Generates shapes of `rank` axes with sizes in [1, largest].
rc::Gen<Shape> any_shape(int rank, std::int64_t largest);

template <class T>
class Simpler {  // the sequence of values that the edits produce
 public:
  Simpler(T value, std::vector<Edit<T>> edits, std::shared_ptr<int> tries)
      : value_(std::move(value)), edits_(std::move(edits)), tries_(std::move(tries)) {}
  rc::Maybe<T> operator()() {
    while (next_ < edits_.size() && *tries_ < kTries) {
      T simpler = value_;
      if (!edits_[next_++](simpler)) continue;
      ++*tries_;
      return simpler;
    }
    return rc::Nothing;
  }

 private:
  T value_;
  std::vector<Edit<T>> edits_;
  std::size_t next_ = 0;
  std::shared_ptr<int> tries_;  // number of values tried since the first one failed
};
template <class T>
rc::Gen<T> shrinking(std::function<T(Rng&)> draw, std::function<std::vector<Edit<T>>(const T&)> edits) {
  return [=](rc::Random random, int) {
    Rng rng(random.next());
    const auto tries = std::make_shared<int>(0);
    return rc::shrinkable::shrinkRecur(
        draw(rng), [=](const T& value) { return rc::makeSeq<Simpler<T>>(value, edits(value), tries); });
  };
}

}  // namespace foldgrad::testing

namespace foldgrad {
void showValue(const Tensor& tensor, std::ostream& out);  // prints [2, 1] of 1, 0.5
void showValue(const Shape& shape, std::ostream& out);
}  // namespace foldgrad

extern template class rc::Gen<foldgrad::testing::Entries>;
extern template class rc::Gen<foldgrad::testing::Arrival>;
extern template class rc::Gen<foldgrad::Tensor>;
extern template class rc::Gen<foldgrad::Shape>;
