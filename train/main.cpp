// main() of the program `foldgrad`: the only file that every commit recompiles.
#include <filesystem>
#include <system_error>

#include "foldgrad_version.h"
#include "train/program.h"
#include "train/runs/directory.h"

int main(int argc, char** argv) {
  std::error_code ignored;
  return foldgrad::run_command_line(argc, argv, {FOLDGRAD_VERSION, FOLDGRAD_COMMIT, FOLDGRAD_COMPILER, FOLDGRAD_FLAGS},
                                    {std::filesystem::read_symlink("/proc/self/exe", ignored)});
}
