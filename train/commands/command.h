// Options that several commands share. Every file with a command includes this header.
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

// Adds the required argument MODEL and appends `note` to its help.
void add_model_option(CLI::App& command, std::string& model, const std::string& note = "");
// Adds --json, which makes the program print the answer's JSON.
void add_json_option(CLI::App& command, const std::string& help = "Print JSON");
// Returns a validator that accepts only numbers in [least, most]. Unlike CLI::Range, it rejects NaN.
CLI::Validator number_in(double least, double most);
// Adds an option that takes a number in [least, most]. The help shows its default.
template <class Number>
void add_number(CLI::App& command, const std::string& name, Number& value, std::type_identity_t<Number> least,
                std::type_identity_t<Number> most, const std::string& help) {
  CLI::Option* option = command.add_option(name, value, help)->capture_default_str();
  if constexpr (std::is_floating_point_v<Number>)
    option->check(number_in(least, most));
  else
    option->check(CLI::Range(least, most));
}
// Adds --tf32 and --device, whose value require_device() takes.
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
// Adds an option that can be repeated and takes one value each time. The help calls this value `value`.
CLI::Option* add_repeated_option(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                                 const std::string& value, const std::string& help);
// Adds --set.
void add_settings_option(CLI::App& command, std::vector<std::string>& settings);
// Adds --data-dir, whose value data_directory() takes.
void add_data_dir_option(CLI::App& command, std::string& directory);
// Adds --source, --reference, --split (default: `split`), --data-dir and --config.
void add_data_options(CLI::App& command, ModelData& data, const std::string& split);

// Calls `action` with the processes that a launcher started together with this one, or with null if there is only this
// one. Sets `device` to this process's own device (train/system/launcher.h). An error in one process ends all of them.
// `timeout` is the number of seconds for which the processes wait for each other to start.
Answer launched(std::string& device, double timeout, const std::function<Answer(Processes*)>& action);

// Returns `data` with the paths of the model at `path`. Without --config, these paths include the configuration of the
// model's run and, unless --data-dir or --source was given, that run's data root.
ModelData located(ModelData data, const std::string& path);

}  // namespace foldgrad
