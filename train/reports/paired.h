// The difference between two cells of a grid, seed by seed. Runs with the same seed share their data order and, if
// shapes agree, their initial weights, so that the differences vary less than the scores.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct PairedDifference {
  std::vector<double> values;  // a - b for each seed that both cells have
  double mean, deviation;      // NaN without such seeds; the deviation is also NaN with only one seed
  double p;                    // p-value of Student's paired two-sided t-test; NaN unless the values differ
};

// Returns a - b over the seeds that both cells have.
PairedDifference paired_difference(const std::map<std::string, double>& a, const std::map<std::string, double>& b);

// Returns the probability that Student's t with `freedom` degrees of freedom is at least as far from 0 as `t`
// (Abramowitz and Stegun, 26.7.3 and 26.7.4).
double student_tail(double t, int freedom);

}  // namespace foldgrad
