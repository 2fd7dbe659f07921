// Several processes within one, each on a thread of its own, for tests of what runs on ranks of many processes.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <tuple>

#include "engine/parallel/team.h"

namespace foldgrad::testing {

class Wire {
 public:
  void send(int from, int to, int tag, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    messages_[{from, to, tag}].emplace(bytes.begin(), bytes.end());
    sent_.notify_all();
  }
  bool receive(int from, int to, int tag, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[{from, to, tag}];
    if (!sent_.wait_for(lock, std::chrono::milliseconds(1), [&] { return !waiting.empty(); })) return false;
    if (waiting.front().size() != bytes.size()) std::abort();
    std::copy(waiting.front().begin(), waiting.front().end(), bytes.begin());
    waiting.pop();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable sent_;
  std::map<std::tuple<int, int, int>, std::queue<std::vector<std::byte>>> messages_;
};

class WiredProcesses : public Processes {
 public:
  WiredProcesses(Wire& wire, int rank, int count) : wire_(wire), rank_(rank), count_(count) {}
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                const std::function<void()>& waiting) override {
    wire_.send(rank_, process, tag_out, out);
    while (!wire_.receive(process, rank_, tag_in, in)) waiting();
  }
  std::vector<int> missing(double) override { return {}; }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  Wire& wire_;
  const int rank_, count_;
};

// Calls `body` with the communicator of each of so many ranks, in so many processes.
inline void run_ranks(int ranks, int processes, const std::function<void(Communicator&)>& body) {
  Wire wire;
  std::vector<std::thread> all;
  for (int p = 0; p < processes; ++p)
    all.emplace_back([&, p] {
      WiredProcesses these(wire, p, processes);
      Team({.ranks = ranks, .processes = &these}).run(body);
    });
  for (std::thread& process : all) process.join();
}

}  // namespace foldgrad::testing
