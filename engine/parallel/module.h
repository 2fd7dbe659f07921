// Loads our shared libraries, which are next to the program, on demand. So the program starts even if a library that
// they depend on is missing.
#pragma once
#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <utility>

namespace foldgrad {

// Returns a function of a library and an empty string, or null and the reason why the function cannot be loaded.
template <class Function>
std::pair<Function*, std::string> find_in_module(const char* library, const char* function) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  void* const opened = dlopen((program.parent_path() / library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return {nullptr, dlerror()};
  void* const found = dlsym(opened, function);
  return {reinterpret_cast<Function*>(found), found ? "" : dlerror()};
}

}  // namespace foldgrad
