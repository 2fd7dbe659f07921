#include "engine/cpu/support.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace foldgrad {

#ifdef FOLDGRAD_CPU_LEVEL
const char* cpu_level() { return FOLDGRAD_CPU_LEVEL; }

// Uses only C: the linker may take the code of a C++ template from a file that is compiled for a newer processor.
void require_cpu_support() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports(FOLDGRAD_CPU_LEVEL)) return;
  std::fputs("error: this build needs a CPU of level " FOLDGRAD_CPU_LEVEL
             "; build it on this machine, or with -DFOLDGRAD_CPU=x86-64-v2 (docs/building.md)\n",
             stderr);
  std::_Exit(6);  // kExitDevice
}
#else
const char* cpu_level() { return "this compiler's default"; }
void require_cpu_support() {}
#endif

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

int processor_quota(const std::string& root) {
  double time = 0, period = 0;            // microseconds: the process may use `time` in each `period`
  std::ifstream both(root + "/cpu.max");  // control groups, version 2; "max" if there is no quota
  if (!(both >> time >> period)) {
    // These files are of control groups, version 1.
    std::ifstream of_time(root + "/cpu/cpu.cfs_quota_us"), of_period(root + "/cpu/cpu.cfs_period_us");
    if (!(of_time >> time && of_period >> period)) return INT_MAX;
  }
  return time > 0 && period > 0 ? int(std::min(std::ceil(time / period), double(INT_MAX))) : INT_MAX;
}

}  // namespace foldgrad
