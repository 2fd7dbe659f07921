// The instruction set that this build was compiled for (FOLDGRAD_CPU), and the CPU that it runs on.
#pragma once
#include <string>

namespace foldgrad {

// Returns a level such as "x86-64-v4", or "this compiler's default".
const char* cpu_level();
// If this CPU lacks instructions that the build uses, prints a message and exits with code 6. This runs before all
// other initializers of the program, since these may already use such instructions.
[[gnu::constructor(101)]] void require_cpu_support();
// Returns this CPU's name from /proc/cpuinfo.
std::string cpu_model();
// Returns the number of processors that the CPU quota of this process's container allows, rounded up, or INT_MAX if
// there is no quota. `docker run --cpus=1.5` sets such a quota. `root` is where control groups are mounted.
int processor_quota(const std::string& root = "/sys/fs/cgroup");

}  // namespace foldgrad
