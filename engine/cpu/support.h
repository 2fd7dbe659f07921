// The instruction set that this build was compiled for (FOLDGRAD_CPU).
#pragma once
#include <string>

namespace foldgrad {

// Returns a level such as "x86-64-v4", or "this compiler's default".
const char* cpu_level();
// Throws std::runtime_error when this CPU lacks instructions that the build uses: a clear message in place of SIGILL.
// Programs call it first thing.
void require_cpu_support();
// Returns this CPU's name in /proc/cpuinfo.
std::string cpu_model();

}  // namespace foldgrad
