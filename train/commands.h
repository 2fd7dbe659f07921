// The sub-commands of `foldgrad`. Each adds itself to the program and, when it has run, leaves its exit code.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

struct BuildInfo;

void add_compare_command(CLI::App& program, int& exit_code);
void add_config_command(CLI::App& program, int& exit_code);
void add_data_command(CLI::App& program, int& exit_code);
void add_demo_command(CLI::App& program, int& exit_code);
void add_norms_command(CLI::App& program, int& exit_code);
void add_report_command(CLI::App& program, int& exit_code);
// `arguments`: of main, for the run's command.txt.
void add_train_command(CLI::App& program, int& exit_code, const BuildInfo& build,
                       const std::vector<std::string>& arguments);
void add_verify_traces_command(CLI::App& program, int& exit_code);

}  // namespace foldgrad
