// The common part of the files that have a command each: the options that several commands take.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "engine/check.h"
#include "engine/dtype.h"
#include "train/commands/commands.h"

namespace foldgrad {

struct DecodingOptions;
struct FoldOptions;
struct ModelData;
enum class NonFinite;

// MODEL, required; `note` is added to its help.
void add_model_option(CLI::App& command, std::string& model, const std::string& note = "");

// --json, which makes the program print the answer's JSON.
void add_json_option(CLI::App& command, const std::string& help = "Print JSON");

// An integer in [least, most], whose default the help shows.
void add_count(CLI::App& command, const std::string& name, std::int64_t& value, std::int64_t least, std::int64_t most,
               const std::string& help);

// --device, for require_device(), and --tf32.
void add_device_option(CLI::App& command, std::string& device);

// --dtype, one of `choices`.
void add_dtype_option(CLI::App& command, DType& dtype, const std::vector<DType>& choices, const std::string& help);

// --data-dir, for data_directory().
void add_data_dir_option(CLI::App& command, std::string& directory);

// Adds the options common to eval, fold, graph, recalibrate, run, translate and verify that their names say:
// --allow-non-finite,
void add_non_finite_option(CLI::App& command, NonFinite& choice);
// --beam, --length-penalty, --max-length-a, --max-length-b,
void add_decoding_options(CLI::App& command, DecodingOptions& options);
// --max-tokens,
void add_max_tokens_option(CLI::App& command, std::int64_t& max_tokens);
// --untie, --keep-tied, --rescale-stream,
void add_fold_options(CLI::App& command, FoldOptions& options);
// --source, --reference, --split (this one by default), --data-dir, --config.
void add_data_options(CLI::App& command, ModelData& data, const std::string& split);

// The data of add_data_options() for the model at `path`, with the directory of the model and the configuration of the
// run that it belongs to.
ModelData located(ModelData data, const std::string& path);

}  // namespace foldgrad
