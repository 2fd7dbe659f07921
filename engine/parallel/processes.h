// The processes of one training, as their launcher started them. An implementation gives what a Team needs of them:
// pairs of messages.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace foldgrad {

class Processes {
 public:
  virtual ~Processes() = default;  // collective: each process must come to its end

  virtual int rank() const = 0;
  virtual int count() const = 0;

  // Sends `out` to a process and receives `in` from it. Messages to and from a process are told apart by their tags.
  // `waiting` is called again and again meanwhile, and may throw. Any thread may call this.
  virtual void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                        const std::function<void()>& waiting) = 0;
  // Returns the processes that have not called this, too, within so many seconds.
  virtual std::vector<int> missing(double seconds) = 0;
  // Ends all processes, this one with the exit code.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// Waits a little before an implementation looks again for a message: first only lets others run, later sleeps, to leave
// the cores to ranks that compute.
inline void wait_a_moment(int looks) {
  if (looks < 100) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(looks < 10000 ? 20 : 200));
}

// The place where processes meet that were not started by MPI.
struct Meeting {
  int rank = 0, count = 1;
  std::string host = "127.0.0.1";  // of the first process
  int port = 0;                    // on which it waits for the others
  double timeout = 600;            // seconds
};

// Join the other processes by MPI, or without it by ZeroMQ, in libraries beside the program (engine/parallel/mpi and
// zmq). To be called once, before there are threads. Throw CommunicationError where the library is missing or fails, or
// the processes do not come within the time-out.
std::unique_ptr<Processes> join_by_mpi();
std::unique_ptr<Processes> join_by_zmq(const Meeting& meeting);
// Return why there is none; empty where there is.
std::string mpi_trouble();
std::string zmq_trouble();

}  // namespace foldgrad
