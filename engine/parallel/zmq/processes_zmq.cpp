// Implements Processes with ZeroMQ, as a separate library (engine/parallel/processes.h). At first each process has only
// the address of process 0, for example from torchrun. A process receives messages at its inbox, a port on its machine.
#include <netdb.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "engine/parallel/elapsed.h"
#include "engine/parallel/processes.h"

namespace foldgrad {
namespace {

constexpr int kPresence = -1;   // tag of the messages that missing() sends; they must not mix with other messages
constexpr int kLinger = 10000;  // milliseconds that closing waits for unsent messages
constexpr int kUnlimited = 0;   // no limit on the number of messages in a queue
constexpr const char* kGreeting = "foldgrad";

void check(bool good, const std::string& call) {
  if (good) return;
  const std::string reason = zmq_errno() == EAGAIN ? "waited in vain" : zmq_strerror(zmq_errno());
  throw std::runtime_error("parallel: " + call + ": " + reason);
}

class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  ~Message() { zmq_msg_close(&message_); }
  Message(Message&& other) noexcept : Message() { zmq_msg_move(&message_, &other.message_); }
  Message(const Message&) = delete;

  bool receive(void* socket, int flags) { return zmq_msg_recv(&message_, socket, flags) >= 0; }
  std::size_t size() const { return zmq_msg_size(&message_); }
  const void* data() const { return zmq_msg_data(const_cast<zmq_msg_t*>(&message_)); }
  std::string text() const { return {static_cast<const char*>(data()), size()}; }
  bool has_more() const { return zmq_msg_more(&message_) != 0; }
  // Returns the sender's address, or "" if the sender's ZeroMQ protocol is too old.
  std::string sender_address() const {
    const char* address = zmq_msg_gets(const_cast<zmq_msg_t*>(&message_), "Peer-Address");
    return address ? address : "";
  }

 private:
  zmq_msg_t message_;
};

class ZmqProcesses final : public Processes {
 public:
  explicit ZmqProcesses(const Meeting& meeting)
      : rank_(meeting.rank), count_(meeting.count), context_(zmq_ctx_new()), inbox_(socket(ZMQ_PULL)) {
    check(zmq_bind(inbox_, "tcp://*:*") == 0, "zmq_bind");
    const std::vector<std::string> inboxes = rank_ == 0 ? meet_others(meeting) : meet_first(meeting);
    for (int r = 0; r < count_; ++r) {
      outboxes_.push_back(r == rank_ ? nullptr : socket(ZMQ_PUSH));
      if (r != rank_)
        check(zmq_connect(outboxes_.back(), inboxes[std::size_t(r)].c_str()) == 0, inboxes[std::size_t(r)]);
    }
  }
  ~ZmqProcesses() override {
    zmq_close(inbox_);
    for (void* outbox : outboxes_)
      if (outbox) zmq_close(outbox);
    zmq_ctx_term(context_);
  }

  int rank() const override { return rank_; }
  int count() const override { return count_; }

  void exchange(int process, int tag_out, std::span<const std::byte> out, int tag_in, std::span<std::byte> in,
                const std::function<void()>& waiting) override {
    send(process, tag_out, out);
    for (int looks = 0; !take(process, tag_in, in); ++looks) {
      waiting();
      wait_a_moment(looks);
    }
  }

  std::vector<int> missing(double seconds) override {
    std::vector<int> missing;
    for (int r = 0; r < count_; ++r)
      if (r != rank_) send(r, kPresence, {}), missing.push_back(r);
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(std::int64_t(1000 * seconds));
    while (!missing.empty() && Clock::now() < until) {
      std::erase_if(missing, [&](int r) { return take(r, kPresence, {}); });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return missing;
  }

  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }  // torchrun ends the other processes

 private:
  struct Header {
    int from, tag;
    std::uint64_t training;  // a random number from process 0; we drop messages with any other number
    auto operator<=>(const Header&) const = default;
  };

  void* socket(int type) {
    void* s = zmq_socket(context_, type);
    check(s != nullptr, "zmq_socket");
    for (const auto& [option, value] :
         {std::pair(ZMQ_LINGER, kLinger), {ZMQ_SNDHWM, kUnlimited}, {ZMQ_RCVHWM, kUnlimited}})
      zmq_setsockopt(s, option, &value, sizeof value);
    return s;
  }
  std::string inbox_port() const {
    char endpoint[256] = "";
    std::size_t size = sizeof endpoint;
    zmq_getsockopt(inbox_, ZMQ_LAST_ENDPOINT, endpoint, &size);
    return std::strrchr(endpoint, ':') + 1;
  }

  // Receives a message of `wanted` parts, and drops all others. Returns false if no such message arrives in time.
  bool receive(void* socket, Clock::time_point until, std::vector<Message>& parts, std::size_t wanted) {
    while (Clock::now() < until) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      const int milliseconds = int(std::min<std::int64_t>(left + 1, 1000));
      zmq_setsockopt(socket, ZMQ_RCVTIMEO, &milliseconds, sizeof milliseconds);
      parts.clear();
      Message part;
      bool more = part.receive(socket, 0);
      if (!more) continue;
      while (more) {
        more = part.has_more();
        parts.push_back(std::move(part));
        if (more) part.receive(socket, 0);
      }
      if (parts.size() == wanted) return true;
    }
    return false;
  }

  // Returns the rank of the process that sent a message, and sets the address of that process's inbox. Returns -1 if
  // the message is not from one of our processes.
  int caller_rank(const Message& said, const Meeting& meeting, std::string& inbox) const {
    std::string greeting, address = said.sender_address();
    int rank = 0, count = 0, port = 0;
    if (address.empty() || !(std::istringstream(said.text()) >> greeting >> rank >> count >> port)) return -1;
    if (greeting != kGreeting) return -1;
    if (count != count_ || rank < 1 || rank >= count_)
      throw std::runtime_error("parallel: process " + std::to_string(rank) + " of " + std::to_string(count) + " on " +
                               address + " connected to process 0, which has $WORLD_SIZE = " + std::to_string(count_));
    if (address.starts_with("127.")) address = meeting.host;  // our own machine, under the name that others use
    inbox = "tcp://" + address + ":" + std::to_string(port);
    return rank;
  }

  // Receives every other process's rank and inbox port, and sends each of them the addresses of all inboxes.
  std::vector<std::string> meet_others(const Meeting& meeting) {
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(std::int64_t(1000 * meeting.timeout));
    require_known(meeting.host);  // we tell the others that this is the address of process 0
    training_ = (std::uint64_t(std::random_device()()) << 32) | std::random_device()();
    void* door = socket(ZMQ_ROUTER);
    const std::string here = "tcp://*:" + std::to_string(meeting.port);
    check(zmq_bind(door, here.c_str()) == 0, "process 0 cannot wait for the others at " + here + ", $MASTER_PORT + 1");
    std::vector<std::string> inboxes(static_cast<std::size_t>(count_));
    std::vector<std::pair<std::string, int>> callers;
    inboxes[0] = "tcp://" + meeting.host + ":" + inbox_port();
    int strangers = 0;
    while (callers.size() + 1 < inboxes.size()) {
      std::vector<Message> parts;
      if (!receive(door, until, parts, 2)) throw std::runtime_error(absent(inboxes, meeting, strangers));
      std::string inbox;
      const int rank = caller_rank(parts[1], meeting, inbox);
      if (rank < 0) {
        ++strangers;
        continue;
      }
      if (!inboxes[std::size_t(rank)].empty())
        throw std::runtime_error("parallel: two processes have $RANK = " + std::to_string(rank));
      inboxes[std::size_t(rank)] = inbox;
      callers.emplace_back(parts[0].text(), rank);
    }
    std::string all = std::to_string(training_) + "\n";
    for (const std::string& inbox : inboxes) all += inbox + "\n";
    for (const auto& [caller, rank] : callers) {
      zmq_send(door, caller.data(), caller.size(), ZMQ_SNDMORE);
      zmq_send(door, all.data(), all.size(), 0);
    }
    zmq_close(door);
    return inboxes;
  }
  std::string absent(const std::vector<std::string>& inboxes, const Meeting& meeting, int strangers) const {
    std::string ranks;
    for (std::size_t r = 0; r < inboxes.size(); ++r)
      if (inboxes[r].empty()) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
    std::ostringstream text;
    text << "parallel: process " << ranks << " of " << count_ << " did not connect to process 0 within "
         << meeting.timeout << " s, on port " << meeting.port << " ($MASTER_PORT + 1)";
    if (strangers > 0) text << "; " << strangers << " messages from other programs arrived";
    return text.str();
  }

  std::vector<std::string> meet_first(const Meeting& meeting) {
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(std::int64_t(1000 * meeting.timeout));
    require_known(meeting.host);
    void* door = socket(ZMQ_DEALER);
    const std::string there = "tcp://" + meeting.host + ":" + std::to_string(meeting.port);
    check(zmq_connect(door, there.c_str()) == 0, there);
    const std::string said =
        std::string(kGreeting) + " " + std::to_string(rank_) + " " + std::to_string(count_) + " " + inbox_port();
    zmq_send(door, said.data(), said.size(), 0);
    std::vector<Message> told;
    std::vector<std::string> inboxes;
    while (inboxes.size() != std::size_t(count_)) {
      if (!receive(door, until, told, 1)) {
        std::ostringstream text;
        text << "parallel: process " << rank_ << " waited " << meeting.timeout << " s for process 0 at " << there
             << ", $MASTER_ADDR and $MASTER_PORT + 1";
        throw std::runtime_error(text.str());
      }
      inboxes.clear();
      std::istringstream lines(told[0].text());
      lines >> training_;
      for (std::string inbox; lines >> inbox;) inboxes.push_back(inbox);
    }
    zmq_close(door);
    return inboxes;
  }
  // Throws if the name cannot be resolved, since ZeroMQ would retry forever.
  static void require_known(const std::string& host) {
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found); error != 0)
      throw std::runtime_error("parallel: $MASTER_ADDR: \"" + host + "\": " + gai_strerror(error));
    freeaddrinfo(found);
  }

  void send(int process, int tag, std::span<const std::byte> bytes) {
    const Header header{rank_, tag, training_};
    const std::lock_guard lock(mutex_);
    check(zmq_send(outboxes_[std::size_t(process)], &header, sizeof header, ZMQ_SNDMORE) >= 0 &&
              zmq_send(outboxes_[std::size_t(process)], bytes.data(), bytes.size(), 0) >= 0,
          "zmq_send");
  }
  // Empties the inbox. If a message with this tag has arrived from `process`, copies it to `bytes` and returns true.
  bool take(int process, int tag, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    for (Message part; part.receive(inbox_, ZMQ_DONTWAIT);) {
      Header h{};
      const bool known = part.size() == sizeof h && part.has_more();
      if (known) std::memcpy(&h, part.data(), sizeof h);
      int parts = 1;
      while (part.has_more()) part.receive(inbox_, 0), ++parts;
      if (known && parts == 2 && h.training == training_) there_[h].push_back(std::move(part));
    }
    std::deque<Message>& messages = there_[{process, tag, training_}];
    if (messages.empty()) return false;
    if (messages.front().size() != bytes.size()) throw std::runtime_error("parallel: a message has the wrong length");
    if (!bytes.empty()) std::memcpy(bytes.data(), messages.front().data(), bytes.size());
    messages.pop_front();
    return true;
  }

  const int rank_, count_;
  void *const context_, *const inbox_;
  std::uint64_t training_ = 0;
  std::vector<void*> outboxes_;  // the index is the process
  std::mutex mutex_;             // only one thread at a time may use a socket
  std::map<Header, std::deque<Message>> there_;
};

}  // namespace
}  // namespace foldgrad

extern "C" foldgrad::Processes* foldgrad_join_zmq(const foldgrad::Meeting& meeting) {
  return new foldgrad::ZmqProcesses(meeting);
}
