// The sub-commands of `foldgrad`. Each adds itself to the program and, when it has run, leaves its exit code.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

struct BuildInfo;
struct DecodingOptions;
struct FoldOptions;
enum class NonFinite;

void add_average_command(CLI::App& program, int& exit_code);
void add_bench_command(CLI::App& program, int& exit_code);
void add_compare_command(CLI::App& program, int& exit_code);
void add_config_command(CLI::App& program, int& exit_code);
void add_data_command(CLI::App& program, int& exit_code);
void add_demo_command(CLI::App& program, int& exit_code);
void add_doctor_command(CLI::App& program, int& exit_code, const BuildInfo& build);
void add_eval_command(CLI::App& program, int& exit_code);
void add_export_command(CLI::App& program, int& exit_code);
void add_fold_command(CLI::App& program, int& exit_code);
void add_graph_command(CLI::App& program, int& exit_code);
void add_inspect_command(CLI::App& program, int& exit_code);
void add_norms_command(CLI::App& program, int& exit_code);
void add_recalibrate_command(CLI::App& program, int& exit_code);
void add_report_command(CLI::App& program, int& exit_code);
void add_run_command(CLI::App& program, int& exit_code);
// `arguments`: of main, for the run's command.txt.
void add_train_command(CLI::App& program, int& exit_code, const BuildInfo& build,
                       const std::vector<std::string>& arguments);
void add_translate_command(CLI::App& program, int& exit_code);
void add_verify_command(CLI::App& program, int& exit_code);
void add_verify_traces_command(CLI::App& program, int& exit_code);

// What translate and eval have in common: --beam, --length-penalty and the like.
void add_decoding_options(CLI::App& command, DecodingOptions& options, std::int64_t& max_tokens);

// What eval, run and translate have in common: --allow-non-finite.
void add_non_finite_option(CLI::App& command, NonFinite& choice);

// What fold, verify and graph have in common: --untie, --keep-tied, --rescale-stream.
void add_fold_options(CLI::App& command, FoldOptions& options);

}  // namespace foldgrad
