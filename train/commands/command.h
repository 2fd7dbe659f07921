// Options that several commands take; every file with a command includes this.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <type_traits>

#include "engine/check.h"
#include "engine/dtype.h"
#include "train/commands/commands.h"

namespace foldgrad {

class Processes;
struct DecodingOptions;
struct FoldOptions;
struct ModelData;
enum class NonFinite;

// Adds MODEL, which is required; `note` is added to its help.
void add_model_option(CLI::App& command, std::string& model, const std::string& note = "");
// Adds --json, which makes the program print the answer's JSON.
void add_json_option(CLI::App& command, const std::string& help = "Print JSON");
// Refuses everything but numbers in [least, most]. Unlike CLI::Range it also refuses NaN.
CLI::Validator number_in(double least, double most);
// Adds a number in [least, most], whose default the help shows.
template <class Number>
void add_number(CLI::App& command, const std::string& name, Number& value, std::type_identity_t<Number> least,
                std::type_identity_t<Number> most, const std::string& help) {
  CLI::Option* option = command.add_option(name, value, help)->capture_default_str();
  if constexpr (std::is_floating_point_v<Number>)
    option->check(number_in(least, most));
  else
    option->check(CLI::Range(least, most));
}
// Adds --device, for require_device(), and --tf32.
void add_device_option(CLI::App& command, std::string& device);
// Adds --dtype, one of `choices`.
void add_dtype_option(CLI::App& command, DType& dtype, const std::vector<DType>& choices, const std::string& help);
// Adds --allow-non-finite.
void add_non_finite_option(CLI::App& command, NonFinite& choice);
// Adds --beam, --length-penalty, --max-length-a and --max-length-b.
void add_decoding_options(CLI::App& command, DecodingOptions& options);
// Adds --max-tokens.
void add_max_tokens_option(CLI::App& command, std::int64_t& max_tokens);
// Adds --untie, --keep-tied and --rescale-stream.
void add_fold_options(CLI::App& command, FoldOptions& options);
// Adds an option that takes one value each time it is given; the help calls it `value`.
CLI::Option* add_repeated_option(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                                 const std::string& value, const std::string& help);
// Adds --set.
void add_settings_option(CLI::App& command, std::vector<std::string>& settings);
// Adds --data-dir, for data_directory().
void add_data_dir_option(CLI::App& command, std::string& directory);
// Adds --source, --reference, --split (this one by default), --data-dir and --config.
void add_data_options(CLI::App& command, ModelData& data, const std::string& split);

// Calls `action` with the processes that a launcher started together with this one, or null if there is only this one.
// Gives each its own `device` (train/system/launcher.h). An error ends all of them.
// `timeout`: seconds that they wait for each other to start.
Answer launched(std::string& device, double timeout, const std::function<Answer(Processes*)>& action);

// Completes `data` for the model at `path` and returns it. Sets the model's directory. Options that were not given come
// from the model's run: the configuration and, for its splits, the data root.
ModelData located(ModelData data, const std::string& path);

}  // namespace foldgrad
