// The processes of one training, as their launcher started them. An implementation gives what a Team needs of them:
// pairs of messages.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace foldgrad {

class Processes {
 public:
  virtual ~Processes() = default;  // takes leave, when all do

  virtual int rank() const = 0;
  virtual int count() const = 0;

  // Sends `out` to a process and receives `in` from it. Messages to and from a process are told apart by their tags.
  // `waiting` is called again and again meanwhile, and may throw. From any thread.
  virtual void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                        const std::function<void()>& waiting) = 0;
  // Calls the roll among processes of which each does: returns those that have not answered in so many seconds.
  virtual std::vector<int> missing(double seconds) = 0;
  // Ends all processes, this one with the exit code.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// Joins the others by MPI, which a library beside the program brings (engine/parallel/mpi). To be called once, before
// there are threads. Throws std::runtime_error where it is missing or fails.
std::unique_ptr<Processes> join_by_mpi();
// Returns why there is no MPI; empty where there is.
std::string mpi_trouble();

}  // namespace foldgrad
