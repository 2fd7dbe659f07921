#include "engine/parallel/processes.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>
#include <stdexcept>

namespace foldgrad {
namespace {

// The function of a library that lies beside the program, or why there is none. Such a library alone links MPI, so that
// only those who start several processes need it.
template <class Function>
std::pair<Function*, std::string> find(const char* library_name, const char* function_name) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  void* library = dlopen((program.parent_path() / library_name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, dlerror()};
  const auto function = reinterpret_cast<Function*>(dlsym(library, function_name));
  return {function, function ? "" : dlerror()};
}
auto find_mpi() { return find<Processes*()>("foldgrad_mpi.so", "foldgrad_join_mpi"); }
auto find_zmq() { return find<Processes*(const Meeting&)>("foldgrad_zmq.so", "foldgrad_join_zmq"); }

}  // namespace

std::unique_ptr<Processes> join_by_mpi() {
  const auto [join, trouble] = find_mpi();
  if (!join) throw std::runtime_error(fmt::format("parallel: MPI is needed, but {}", trouble));
  return std::unique_ptr<Processes>(join());
}
std::unique_ptr<Processes> join_by_zmq(const Meeting& meeting) {
  const auto [join, trouble] = find_zmq();
  if (!join) throw std::runtime_error(fmt::format("parallel: ZeroMQ is needed, but {}", trouble));
  return std::unique_ptr<Processes>(join(meeting));
}

std::string mpi_trouble() { return find_mpi().second; }
std::string zmq_trouble() { return find_zmq().second; }

}  // namespace foldgrad
