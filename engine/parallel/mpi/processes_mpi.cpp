// Implements Processes with MPI, as a separate library (engine/parallel/processes.h).
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "engine/parallel/elapsed.h"
#include "engine/parallel/processes.h"

namespace foldgrad {
namespace {

constexpr std::size_t kMost = std::size_t(1) << 30;  // bytes per message; MPI counts them in an int

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw std::runtime_error(std::string("parallel: ") + call + ": " + text);
}

// Makes one MPI call at a time, which every MPI library supports.
class MpiProcesses final : public Processes {
 public:
  MpiProcesses() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED) throw std::runtime_error("parallel: this MPI supports only a single thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &presence_);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
  ~MpiProcesses() override {
    // If an exception ends this process, the others may never reach MPI_Finalize, and our call would never return.
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int count() const override { return count_; }

  void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                const std::function<void()>& waiting) override {
    const auto part = [](auto bytes, std::size_t at) {
      const auto rest = bytes.subspan(std::min(at, bytes.size()));
      return rest.first(std::min(kMost, rest.size()));
    };
    std::size_t at = 0;
    do {
      exchange_part(process, tag_out, part(out, at), tag_in, part(in, at), waiting);
      at += kMost;
    } while (at < std::max(out.size(), in.size()));
  }

  std::vector<int> missing(double seconds) override {
    std::vector<MPI_Request> sent;
    std::vector<bool> answered(std::size_t(count_), false);
    answered[std::size_t(rank_)] = true;
    static char nothing = 0;
    const std::lock_guard lock(mutex_);
    for (int r = 0; r < count_; ++r)
      if (r != rank_) MPI_Isend(&nothing, 0, MPI_BYTE, r, 0, presence_, &sent.emplace_back());
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(std::int64_t(1000 * seconds));
    while (Clock::now() < until) {
      int there = 0;
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, 0, presence_, &there, &status), "MPI_Iprobe");
      if (there) {
        MPI_Recv(&nothing, 0, MPI_BYTE, status.MPI_SOURCE, 0, presence_, MPI_STATUS_IGNORE);
        answered[std::size_t(status.MPI_SOURCE)] = true;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    std::vector<int> missing;
    for (int r = 0; r < count_; ++r)
      if (!answered[std::size_t(r)]) missing.push_back(r);
    return missing;
  }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  void exchange_part(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                     const std::function<void()>& waiting) {
    MPI_Request requests[2];
    {
      const std::lock_guard lock(mutex_);
      check(MPI_Irecv(in.data(), int(in.size()), MPI_BYTE, process, tag_in, MPI_COMM_WORLD, &requests[0]), "MPI_Irecv");
      check(MPI_Isend(out.data(), int(out.size()), MPI_BYTE, process, tag_out, MPI_COMM_WORLD, &requests[1]),
            "MPI_Isend");
    }
    for (int looks = 0;; ++looks) {
      int done = 0;
      {
        const std::lock_guard lock(mutex_);
        check(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      }
      if (done) return;
      waiting();
      wait_a_moment(looks);
    }
  }

  std::mutex mutex_;
  int rank_ = 0, count_ = 1;
  MPI_Comm presence_ = MPI_COMM_NULL;  // for missing(), whose messages must not mix with others
};

}  // namespace
}  // namespace foldgrad

extern "C" foldgrad::Processes* foldgrad_join_mpi() { return new foldgrad::MpiProcesses; }
