// Statistics of a model's layers and normalizers during training, for the log.
#pragma once
#include <nlohmann/json.hpp>

#include "engine/tape.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// Returns for each layer ("encoder.layers.0", "encoder.embed_tokens") the Euclidean norm of the gradients that the last
// update left. Copies them from the device.
std::map<std::string, double> gradient_norms(const std::vector<Parameter*>& parameters);

// Returns the ratio of the arithmetic to the geometric mean of a window of mean squares, averaged over the channels.
// The ratio is 1 if the mean squares do not change. Leaves out channels with an entry of 0, as in the first M
// iterations. Returns no value if no channel is left.
std::optional<double> am_over_gm(const std::vector<NormDiagnostics::Means>& window);

// Returns, for each site, the numbers of iterations and skips since the beginning, the range of the running variance
// over channels, am_over_gm, the number of clamped channels, and both means of the window in four evenly spaced
// channels. Leaves out statistics that a normalizer does not have, and sites without statistics.
nlohmann::ordered_json normalizer_statistics(const std::vector<Normalizer*>& normalizers);

}  // namespace foldgrad
