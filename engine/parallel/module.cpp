#include "engine/parallel/module.h"

#include <dlfcn.h>

#include <filesystem>

namespace foldgrad {

std::pair<void*, std::string> find_in_module(const char* library, const char* function) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  void* const opened = dlopen((program.parent_path() / library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return {nullptr, dlerror()};
  void* const found = dlsym(opened, function);
  return {found, found ? "" : dlerror()};
}

}  // namespace foldgrad
