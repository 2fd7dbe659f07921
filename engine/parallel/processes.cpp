#include "engine/parallel/processes.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>
#include <stdexcept>

namespace foldgrad {
namespace {

constexpr const char *kLibrary = "foldgrad_mpi.so", *kJoin = "foldgrad_join_mpi";
using Join = Processes* (*)();

// That library alone links MPI, so that only those who start several processes need it.
std::pair<Join, std::string> find_join() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  void* library = dlopen((program.parent_path() / kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, dlerror()};
  const auto join = reinterpret_cast<Join>(dlsym(library, kJoin));
  return {join, join ? "" : dlerror()};
}

}  // namespace

std::unique_ptr<Processes> join_by_mpi() {
  const auto [join, trouble] = find_join();
  if (!join) throw std::runtime_error(fmt::format("parallel: MPI is needed, but {}", trouble));
  return std::unique_ptr<Processes>(join());
}

std::string mpi_trouble() { return find_join().second; }

}  // namespace foldgrad
