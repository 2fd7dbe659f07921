#include "engine/cpu/support.h"

#include <fstream>
#include <stdexcept>

namespace foldgrad {

#ifdef FOLDGRAD_CPU_LEVEL
const char* cpu_level() { return FOLDGRAD_CPU_LEVEL; }

void require_cpu_support() {
  if (!__builtin_cpu_supports(FOLDGRAD_CPU_LEVEL))
    throw std::runtime_error("this build needs a CPU of level " FOLDGRAD_CPU_LEVEL
                             "; configure it again on this machine, or with -DFOLDGRAD_CPU=x86-64-v2");
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
