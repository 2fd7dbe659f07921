#include "engine/cpu/support.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace foldgrad {

#ifdef FOLDGRAD_CPU_LEVEL
const char* cpu_level() { return FOLDGRAD_CPU_LEVEL; }

// Only C: the linker may take functions of C++ templates from files that are compiled for the level.
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

}  // namespace foldgrad
