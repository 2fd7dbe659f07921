// Simulates several processes within one process, each on its own thread, to test code for ranks in many processes.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <tuple>

#include "engine/parallel/team.h"

namespace foldgrad::testing {

class Wire {
 public:
  // With `turns`, the processes take turns: one runs until it waits for a message, then another may run. Emulated GPUs
  // need this, since the emulation runs only one kernel at a time.
  explicit Wire(bool turns = false) : turns_(turns) {}

  static constexpr int kLinkTag = -1;  // the tag of all messages sent by links

  struct Sent {
    int from, to, tag;
    std::size_t bytes;
  };

  void send(int from, int to, int tag, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    all_.push_back({from, to, tag, bytes.size()});
    messages_[{from, to, tag}].emplace(bytes.begin(), bytes.end());
    sent_.notify_all();
  }
  void receive(int from, int to, int tag, std::span<std::byte> bytes, const std::function<void()>& waiting) {
    leave_turn();
    try {
      while (!arrived(from, to, tag, bytes)) waiting();
    } catch (...) {
      take_turn();
      throw;
    }
    take_turn();
  }
  void take_turn() {
    if (turns_) turn_.lock();
  }
  void leave_turn() {
    if (turns_) turn_.unlock();
  }
  // Returns all messages that were sent. Call it after all processes have ended.
  const std::vector<Sent>& all() const { return all_; }
  std::size_t linked_bytes(int from) const {
    std::size_t bytes = 0;
    for (const Sent& s : all_)
      if (s.tag == kLinkTag && s.from == from) bytes += s.bytes;
    return bytes;
  }

 private:
  bool arrived(int from, int to, int tag, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[{from, to, tag}];
    if (!sent_.wait_for(lock, std::chrono::milliseconds(1), [&] { return !waiting.empty(); })) return false;
    if (waiting.front().size() != bytes.size()) std::abort();
    std::copy(waiting.front().begin(), waiting.front().end(), bytes.begin());
    waiting.pop();
    return true;
  }

  const bool turns_;
  std::mutex mutex_, turn_;
  std::condition_variable sent_;
  std::vector<Sent> all_;
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
    wire_.receive(process, rank_, tag_in, in, waiting);
  }
  std::vector<int> missing(double) override { return {}; }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  Wire& wire_;
  const int rank_, count_;
};

// A link between processes that share a device. Data travels through the host.
class WiredLink final : public DeviceLink {
 public:
  WiredLink(Wire& wire, int gpu) : wire_(wire), gpu_(gpu) {}
  Uuid uuid() const override { return {std::byte(gpu_)}; }
  std::string make_id() override { return std::string("\0id", 3); }
  void join(const std::string& id, int rank, int) override {
    if (id != make_id()) throw std::runtime_error("another id");
    rank_ = rank;
  }
  void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) override {
    std::vector<std::byte> sent(out.size()), received(in.size());
    memory::copy(Device::cpu, sent.data(), Device::cuda, out.data(), out.size());
    wire_.send(rank_, partner, Wire::kLinkTag, sent);
    wire_.receive(partner, rank_, Wire::kLinkTag, received, [] {});
    memory::copy(Device::cuda, in.data(), Device::cpu, received.data(), in.size());
  }

 private:
  Wire& wire_;
  const int gpu_;
  int rank_ = -1;
};

// Calls `body` for each rank, with the team of the rank's process and with the rank's communicator. open_link(p)
// returns the function that opens the device link of process p.
inline void run_teams(Wire& wire, int ranks, int processes, const std::function<OpenDeviceLink(int process)>& open_link,
                      const std::function<void(const Team&, Communicator&)>& body) {
  std::vector<std::thread> all;
  for (int p = 0; p < processes; ++p)
    all.emplace_back([&, p] {
      WiredProcesses these(wire, p, processes);
      Team team({.ranks = ranks, .processes = &these, .open_link = open_link(p)});
      wire.take_turn();
      team.run([&](Communicator& c) { body(team, c); });
      wire.leave_turn();
    });
  for (std::thread& process : all) process.join();
}

// Calls `body` with the communicator of each of `ranks` ranks, which are divided among `processes` processes.
inline void run_ranks(int ranks, int processes, const std::function<void(Communicator&)>& body) {
  Wire wire;
  run_teams(
      wire, ranks, processes, [](int) { return nullptr; }, [&](const Team&, Communicator& c) { body(c); });
}

}  // namespace foldgrad::testing
