// The share of iterations that UN's outlier test fires in, on recorded statistics and on noise like them. Noise has no
// outliers: a test that fires on it as often as on the recording has found none.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

// Returns the percentage of rows of q [rows, channels] in which a normalizer `un` with these options finds an outlier.
// It filters from the first full window on, whatever the options say of warm-up and filtration. Its windows hold the
// rows themselves, not what a skip writes: a decision does not depend on earlier ones. NaN for
// options without a window of at least 2, and without a row after the first full window.
double percent_of_outliers(const std::map<std::string, std::string>& options, const std::vector<float>& q,
                           std::int64_t channels);

// Return noise for q [rows, channels], the same for the same q: each channel in an order of its own, so that no row
// stands out in several channels and nothing drifts; and normal noise of each channel's mean and standard deviation,
// values below 0 as 0.
std::vector<float> shuffled_in_time(const std::vector<float>& q, std::int64_t channels);
std::vector<float> normal_noise_like(const std::vector<float>& q, std::int64_t channels);

}  // namespace foldgrad
