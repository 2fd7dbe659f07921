#include "engine/parallel/team.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "engine/check.h"
#include "engine/cpu/threads.h"
#include "engine/parallel/elapsed.h"

namespace foldgrad {
namespace {

constexpr double kAnswerSeconds = 5;

// A message between two ranks of this process. It refers to the sender's memory until the receiver has copied it.
struct Message {
  const std::byte* data = nullptr;
  bool there = false, being_read = false;
};

// The state that the ranks of one process share.
struct TeamState {
  TeamOptions options;
  int first, local;
  std::mutex mutex{};
  std::condition_variable changed{};
  std::map<int, Message> messages{};  // the key is tag()
  std::vector<int> waits{};           // for each local rank, the number of its threads that wait for another rank
  std::vector<int> channels{};        // for each local rank, the channel that it assigned last
  std::exception_ptr failure{};       // the first exception of any rank
  std::unique_ptr<DeviceLink> link{};

  bool is_here(int rank) const { return rank >= first && rank < first + local; }
  void fail(std::exception_ptr reason) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = reason;
    changed.notify_all();
  }
};

class TeamMember final : public Communicator {
 public:
  // A rank may have several communicators; `channel` distinguishes their messages.
  TeamMember(TeamState& team, int rank, int channel)
      : Communicator(rank, team.options.ranks), team_(team), channel_(channel) {}

  std::unique_ptr<Communicator> another() override {
    return std::make_unique<TeamMember>(team_, rank(), ++team_.channels[std::size_t(rank() - team_.first)]);
  }
  void interrupt() override {
    const std::lock_guard lock(team_.mutex);
    interrupted_ = true;
    team_.changed.notify_all();
  }

 private:
  void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) override {
    const Clock::time_point until =
        Clock::now() + std::chrono::milliseconds(std::int64_t(1000 * team_.options.timeout));
    waits(1);
    team_.is_here(partner) ? exchange_here(partner, out, in, until) : exchange_there(partner, out, in, until);
    waits(-1);
  }
  int tag(int from, int to) const { return (channel_ * size() + from) * size() + to; }

  DeviceLink* device_link() const override { return team_.link.get(); }

  void exchange_here(int partner, std::span<const std::byte> out, std::span<std::byte> in, Clock::time_point until) {
    std::unique_lock lock(team_.mutex);
    Message &mine = team_.messages[tag(rank(), partner)], &theirs = team_.messages[tag(partner, rank())];
    const auto wait = [&](const auto& done) {
      const auto ended = [&] { return done() || team_.failure != nullptr || interrupted_; };
      const bool in_time = team_.changed.wait_until(lock, until, ended);
      if (done()) return;
      // Withdraws the message, which refers to this rank's memory, when the receiver is not reading it.
      team_.changed.wait(lock, [&] { return !mine.being_read; });
      mine.there = false;
      lock.unlock();
      give_up(partner, in_time);
    };
    mine = {out.data(), true};
    team_.changed.notify_all();
    wait([&] { return theirs.there; });
    theirs.being_read = true;
    lock.unlock();
    if (!in.empty()) std::memcpy(in.data(), theirs.data, in.size());
    lock.lock();
    theirs = {};
    team_.changed.notify_all();
    wait([&] { return !mine.there; });
  }

  void exchange_there(int partner, std::span<const std::byte> out, std::span<std::byte> in, Clock::time_point until) {
    const auto waiting = [&] {
      if (const bool ended = has_ended(); ended || Clock::now() > until) give_up(partner, ended);
    };
    const int process = partner / team_.local;
    team_.options.processes->exchange(process, tag(rank(), partner), out, tag(partner, rank()), in, waiting);
  }

  void waits(int change) {
    const std::lock_guard lock(team_.mutex);
    team_.waits[std::size_t(rank() - team_.first)] += change;
  }
  bool has_ended() {
    const std::lock_guard lock(team_.mutex);
    return team_.failure || interrupted_;
  }

  // Throws CommunicationError: another rank has failed, this communicator was interrupted, or the wait has timed out.
  [[noreturn]] void give_up(int partner, bool ended) {
    if (ended)
      throw CommunicationError(
          fmt::format("{}: {}", operation(), interrupted_ ? "interrupted" : "another rank has failed"));
    throw CommunicationError(fmt::format("{}: at step {} rank {} waited {} s for rank {}; {}", operation(), step(),
                                         rank(), team_.options.timeout, partner, absent()));
  }

  std::string absent() {
    if (team_.options.processes)
      if (const std::vector<int> missing = team_.options.processes->missing(kAnswerSeconds); !missing.empty())
        return fmt::format("missing: process {}", fmt::join(missing, ", "));
    std::vector<int> ranks;
    const std::lock_guard lock(team_.mutex);
    for (int i = 0; i < team_.local; ++i)
      if (team_.waits[std::size_t(i)] == 0) ranks.push_back(team_.first + i);
    if (ranks.empty()) return "all processes answer";
    return fmt::format("missing: rank {}", fmt::join(ranks, ", "));
  }

  TeamState& team_;
  const int channel_;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

Team::Team(const TeamOptions& options) : options_(options) {
  const int processes = options.processes ? options.processes->count() : 1;
  FOLDGRAD_CHECK(options.ranks >= 1 && std::has_single_bit(unsigned(options.ranks)),
                 "parallel: the number of ranks must be a power of two, got {}", options.ranks);
  FOLDGRAD_CHECK(options.ranks % processes == 0,
                 "parallel: the number of ranks must be a multiple of the number of processes, {}, got {}", processes,
                 options.ranks);
  local_ = options.ranks / processes;
  first_ = options.processes ? options.processes->rank() * local_ : 0;
}

void Team::run(const std::function<void(Communicator&)>& body) {
  TeamState team{.options = options_, .first = first_, .local = local_};
  team.waits.resize(std::size_t(local_));
  team.channels.resize(std::size_t(local_));
  const auto work = [&](int i) {
    set_threads(std::max(1, options_.threads / local_));
    try {
      TeamMember member(team, first_ + i, 0);
      if (options_.processes && local_ == 1) team.link = link_devices(member, options_.open_link, link_trouble_);
      body(member);
    } catch (...) {
      team.fail(std::current_exception());
    }
  };
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < local_; ++i) others.emplace_back(work, i);
  } catch (const std::system_error&) {  // the system refuses more threads; those that have started must end
    team.fail(std::current_exception());
  }
  work(0);
  for (std::thread& other : others) other.join();
  set_threads(options_.threads);
  if (team.failure) std::rethrow_exception(team.failure);
}

}  // namespace foldgrad
