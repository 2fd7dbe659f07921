#include "engine/cpu/support.h"

#include <fstream>
#include <stdexcept>

namespace foldgrad {

#if FOLDGRAD_CPU_LEVEL == 4
#define FOLDGRAD_LEVEL_NAME "x86-64-v4"
#elif FOLDGRAD_CPU_LEVEL == 3
#define FOLDGRAD_LEVEL_NAME "x86-64-v3"
#elif FOLDGRAD_CPU_LEVEL == 2
#define FOLDGRAD_LEVEL_NAME "x86-64-v2"
#endif

#ifdef FOLDGRAD_LEVEL_NAME
const char* cpu_level() { return FOLDGRAD_LEVEL_NAME; }

void require_cpu_support() {
  if (!__builtin_cpu_supports(FOLDGRAD_LEVEL_NAME))
    throw std::runtime_error("this build needs a CPU of level " FOLDGRAD_LEVEL_NAME
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
