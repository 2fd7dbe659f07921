#include "train/system/waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace foldgrad {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
constexpr const char* kWaitPolicy = "OMP_WAIT_POLICY";

}  // namespace

void limit_spinning(char** argv) {
  if (std::getenv(kSpinCount) || std::getenv(kWaitPolicy)) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv(kSpinCount, "4000", /*overwrite=*/0) != 0) return;
  execv(program.c_str(), argv);
  unsetenv(kSpinCount);  // execv() failed: this process keeps libgomp's default
}

std::string waiting_policy() {
  for (const char* name : {kSpinCount, kWaitPolicy})
    if (const char* value = std::getenv(name)) return std::string(name) + "=" + value;
  return "libgomp's default";
}

}  // namespace foldgrad
