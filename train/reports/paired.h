// The difference of two cells of a grid, seed by seed. Runs with the same seed share their data order and, if shapes
// agree, their initial weights, so that differences vary less than the runs do.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct PairedDifference {
  std::vector<double> values;  // of the seeds that both have
  double mean, deviation;      // NaN without a seed; the deviation is also NaN with one
  double p;                    // of Student's paired t-test, two-sided; NaN unless the values differ
};

// Returns a - b over the seeds that both have.
PairedDifference paired_difference(const std::map<std::string, double>& a, const std::map<std::string, double>& b);

// Returns the probability that Student's t with `freedom` degrees of freedom is at least as far from 0 as `t`
// (Abramowitz and Stegun, 26.7.3 and 26.7.4).
double student_tail(double t, int freedom);

}  // namespace foldgrad
