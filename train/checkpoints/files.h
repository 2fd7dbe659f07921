// Names in a directory of checkpoints.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace foldgrad::checkpoint_files {

constexpr int kFormatVersion = 1;
constexpr const char* kParts[] = {"model.safetensors", "optimizer.safetensors", "norm_state.safetensors", "state.json"};
constexpr const char* kManifest = "manifest.json";

std::string step_name(std::int64_t step);           // "step-00012000"
std::int64_t step_of(const std::string& name);      // -1 when it is no such name
std::string read_pointer(const std::string& path);  // returns the content of LATEST or BEST; empty without a valid one
std::vector<std::int64_t> steps_in(const std::string& checkpoints);  // rising

}  // namespace foldgrad::checkpoint_files
