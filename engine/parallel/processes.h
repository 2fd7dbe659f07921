// The processes of a training run, which a launcher has started. Implementations exchange messages between pairs of
// processes.
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
  virtual ~Processes() = default;  // collective: all processes must destroy their objects

  virtual int rank() const = 0;
  virtual int count() const = 0;

  // Sends `out` to a process and receives `in` from it. Tags distinguish messages between the same two processes. While
  // this waits, it calls waiting() repeatedly, which may throw. Any thread may call this.
  virtual void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                        const std::function<void()>& waiting) = 0;
  // Returns the processes that do not call missing() within the given time.
  virtual std::vector<int> missing(double seconds) = 0;
  // Ends all processes. This process ends with the given exit code.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// Waits a little before an implementation polls for a message again. The first 100 waits only yield. Later waits sleep,
// to leave the cores to ranks that compute.
inline void wait_a_moment(int looks) {
  if (looks < 100) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(looks < 10000 ? 20 : 200));
}

// The meeting place of processes that were started without MPI.
struct Meeting {
  int rank = 0, count = 1;
  std::string host = "127.0.0.1";  // the machine that runs process 0
  int port = 0;                    // the port on which process 0 waits for the others
  double timeout = 600;            // seconds to wait for another process
};

// These connect this process with the others by MPI or ZeroMQ, through our libraries next to the program
// (engine/parallel/mpi and zmq). Call only one of them, once, before you start threads. They throw CommunicationError
// if the library is missing or fails, or if the other processes do not arrive within the timeout.
std::unique_ptr<Processes> join_by_mpi();
std::unique_ptr<Processes> join_by_zmq(const Meeting& meeting);
// These return why MPI or ZeroMQ cannot be used, or an empty string if it can be used.
std::string mpi_trouble();
std::string zmq_trouble();

}  // namespace foldgrad
