// The instruction set that this build was compiled for (FOLDGRAD_CPU), and the CPU that it runs on.
#pragma once
#include <string>

namespace foldgrad {

// Returns a level such as "x86-64-v4", or "this compiler's default".
const char* cpu_level();
// Ends the process with a message and exit code 6 if this CPU lacks instructions that the build uses. Runs before all
// other initializers of a program that links it, since these may already use such instructions.
[[gnu::constructor(101)]] void require_cpu_support();
// Returns this CPU's name in /proc/cpuinfo.
std::string cpu_model();
// Returns the number of processors that the quota of this process's container allows, rounded up; `docker run
// --cpus=1.5` sets such a quota. INT_MAX if there is no quota. `root` is the folder where Linux shows control groups.
int processor_quota(const std::string& root = "/sys/fs/cgroup");

}  // namespace foldgrad
