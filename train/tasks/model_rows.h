// The functions of a model's configuration that the row of its family needs (families.h): an overload for each.
#pragma once
#include "engine/shape.h"
#include "train/config/config_json.h"
#include "train/tasks/families.h"

namespace foldgrad {

void take_sizes(TransformerConfig& config, const DataSizes& sizes);
void take_sizes(ImageModelConfig& config, const DataSizes& sizes);
void take_sizes(GptConfig& config, const DataSizes& sizes);

// The smallest data, and one layer. Throw std::invalid_argument for what no data would make valid.
TransformerConfig smallest(TransformerConfig config);
VitConfig smallest(VitConfig config);
CctConfig smallest(CctConfig config);
GptConfig smallest(GptConfig config);

// See Family::expected_parameters.
using ExpectedParameters = std::vector<std::pair<std::string, Shape>>;
ExpectedParameters expected_parameters(const TransformerConfig& config);
ExpectedParameters expected_parameters(const VitConfig& config);
ExpectedParameters expected_parameters(const CctConfig& config);
ExpectedParameters expected_parameters(const GptConfig& config);

}  // namespace foldgrad
