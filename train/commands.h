// The sub-commands of `foldgrad`. Each adds itself to the program and, when it has run, leaves its exit code.
#pragma once

namespace CLI {
class App;
}

namespace foldgrad {

void add_demo_command(CLI::App& program, int& exit_code);
void add_norms_command(CLI::App& program, int& exit_code);
void add_verify_traces_command(CLI::App& program, int& exit_code);

}  // namespace foldgrad
