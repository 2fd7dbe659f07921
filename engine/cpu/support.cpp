#include "engine/cpu/support.h"

#include <fstream>
#include <stdexcept>

namespace foldgrad {

const char* cpu_level() {
#if FOLDGRAD_CPU_LEVEL == 4
  return "x86-64-v4";
#elif FOLDGRAD_CPU_LEVEL == 3
  return "x86-64-v3";
#elif FOLDGRAD_CPU_LEVEL == 2
  return "x86-64-v2";
#else
  return "this compiler's default";
#endif
}

void require_cpu_support() {
#if FOLDGRAD_CPU_LEVEL == 4
  const bool supported = __builtin_cpu_supports("x86-64-v4");
#elif FOLDGRAD_CPU_LEVEL == 3
  const bool supported = __builtin_cpu_supports("x86-64-v3");
#elif FOLDGRAD_CPU_LEVEL == 2
  const bool supported = __builtin_cpu_supports("x86-64-v2");
#else
  const bool supported = true;
#endif
  if (!supported)
    throw std::runtime_error(std::string("this build needs a CPU of level ") + cpu_level() +
                             "; configure it again on this machine, or with -DFOLDGRAD_CPU=x86-64-v2");
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

}  // namespace foldgrad
