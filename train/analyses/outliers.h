// The rate at which UN's outlier test fires on recorded statistics, and on noise like them. Noise has no outliers: a
// test that fires as often on noise as on the recording has found none.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

// Returns the percentage of rows of q [rows, channels] in which a normalizer `un` with these options finds an outlier.
// Filtration starts at the first full window, whatever the options say about warm-up and filtration. Windows hold the
// recorded rows, not the values that a skip would write, so decisions do not depend on earlier ones. NaN if the options
// have no window of at least 2, or if no row follows the first full window.
double percent_of_outliers(const std::map<std::string, std::string>& options, const std::vector<float>& q,
                           std::int64_t channels);

// Return noise for q [rows, channels], always the same for the same q. The first shuffles each channel separately, so
// that no row is unusual in several channels and nothing drifts. The second draws normal noise with each channel's mean
// and standard deviation, and raises values below 0 to 0.
std::vector<float> shuffled_in_time(const std::vector<float>& q, std::int64_t channels);
std::vector<float> normal_noise_like(const std::vector<float>& q, std::int64_t channels);

}  // namespace foldgrad
