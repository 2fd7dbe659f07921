// The sub-commands of `foldgrad`; main.cpp has the table of their names.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/dtype.h"

namespace CLI {
class App;
}

namespace foldgrad {

struct BuildInfo;
struct DecodingOptions;
struct FoldOptions;
enum class NonFinite;

// A command whose options have been parsed; returns the exit code.
using Action = std::function<int()>;

// Each gives a command its options, and returns the action that they are for.
Action add_analyze(CLI::App& command);
Action add_average(CLI::App& command);
Action add_classify(CLI::App& command);
Action add_compare(CLI::App& command);
Action add_config(CLI::App& command);
Action add_data(CLI::App& command);
Action add_demo(CLI::App& command, const BuildInfo& build);
extern const char* const kDemoConfig;  // configs/numbers.toml, which the build puts into the program
Action add_doctor(CLI::App& command, const BuildInfo& build);
Action add_eval(CLI::App& command);
Action add_export(CLI::App& command);
Action add_fold(CLI::App& command);
Action add_graph(CLI::App& command);
Action add_grid(CLI::App& command);
Action add_inspect(CLI::App& command);
Action add_norms(CLI::App& command);
Action add_recalibrate(CLI::App& command);
Action add_report(CLI::App& command);
Action add_run(CLI::App& command);
// `arguments`: of main, for the run's command.txt.
Action add_train(CLI::App& command, const BuildInfo& build, const std::vector<std::string>& arguments);
Action add_translate(CLI::App& command);
Action add_verify(CLI::App& command);
Action add_verify_traces(CLI::App& command);

// Adds the options common to translate and eval: --beam, --length-penalty and the like.
void add_decoding_options(CLI::App& command, DecodingOptions& options, std::int64_t& max_tokens);

// Adds the option common to eval, run and translate: --allow-non-finite.
void add_non_finite_option(CLI::App& command, NonFinite& choice);

// --device, for require_device(), and --tf32.
void add_device_option(CLI::App& command, std::string& device);

// --dtype, one of `choices`.
void add_dtype_option(CLI::App& command, DType& dtype, const std::vector<DType>& choices, const std::string& help);

// Adds the options common to fold, verify and graph: --untie, --keep-tied, --rescale-stream.
void add_fold_options(CLI::App& command, FoldOptions& options);

// Prints the output of --json. Names of files need not be UTF-8.
void print_json(const nlohmann::ordered_json& all);

}  // namespace foldgrad
