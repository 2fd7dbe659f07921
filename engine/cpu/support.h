// The instruction set that this build was compiled for (FOLDGRAD_CPU).
#pragma once
#include <string>

namespace foldgrad {

// Returns a level such as "x86-64-v4", or "this compiler's default".
const char* cpu_level();
// Ends the process with a message and exit code 6 if this CPU lacks instructions that the build uses. Runs before all
// other initializers of a program that links it, since these may use such instructions already.
[[gnu::constructor(101)]] void require_cpu_support();
// Returns this CPU's name in /proc/cpuinfo.
std::string cpu_model();

}  // namespace foldgrad
