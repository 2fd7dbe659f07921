#include "engine/parallel/processes.h"

#include <fmt/core.h>

#include <stdexcept>

#include "engine/parallel/communicator.h"
#include "engine/parallel/module.h"

namespace foldgrad {
namespace {

// Only these libraries are linked with MPI or ZeroMQ, so the program starts without either.
auto find_mpi() { return find_in_module<Processes*()>("foldgrad_mpi.so", "foldgrad_join_mpi"); }
auto find_zmq() { return find_in_module<Processes*(const Meeting&)>("foldgrad_zmq.so", "foldgrad_join_zmq"); }

template <class Found, class... Meetings>
std::unique_ptr<Processes> joined(const char* needed, const Found& found, const Meetings&... meeting) try {
  const auto& [join, trouble] = found;
  if (!join) throw std::runtime_error(fmt::format("parallel: {} is needed, but {}", needed, trouble));
  return std::unique_ptr<Processes>(join(meeting...));
} catch (const std::runtime_error& e) {
  throw CommunicationError(e.what());
}

}  // namespace

std::unique_ptr<Processes> join_by_mpi() { return joined("MPI", find_mpi()); }
std::unique_ptr<Processes> join_by_zmq(const Meeting& meeting) { return joined("ZeroMQ", find_zmq(), meeting); }
std::string mpi_trouble() { return find_mpi().second; }
std::string zmq_trouble() { return find_zmq().second; }

}  // namespace foldgrad
