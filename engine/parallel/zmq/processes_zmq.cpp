// Processes that know no more of each other than the address of the first, as torchrun gives it; in a library of its
// own (engine/parallel/processes.h). Each has an inbox, a port of its machine, to which all others send by ZeroMQ.
#include <zmq.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "engine/parallel/processes.h"

namespace foldgrad {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPresence = -1;   // the tag of missing()'s messages, which must not meet others
constexpr int kLinger = 10000;  // milliseconds that the end waits for what has been sent
constexpr int kUnlimited = 0;   // messages in a queue

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
  std::string sender_address() const { return zmq_msg_gets(&message_, "Peer-Address"); }

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

  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }  // torchrun ends the others

 private:
  struct Header {
    int from, tag;
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

  // Returns a socket for the meeting, which waits so long for a message.
  void* meeting_socket(int type, double timeout) {
    void* s = socket(type);
    const int milliseconds = int(1000 * timeout);
    zmq_setsockopt(s, ZMQ_RCVTIMEO, &milliseconds, sizeof milliseconds);
    return s;
  }

  // Receives the rank and the port of the inbox of every other process, and sends to each where all inboxes are.
  std::vector<std::string> meet_others(const Meeting& meeting) {
    void* door = meeting_socket(ZMQ_ROUTER, meeting.timeout);
    const std::string here = "tcp://*:" + std::to_string(meeting.port);
    check(zmq_bind(door, here.c_str()) == 0, here);
    std::vector<std::string> inboxes(static_cast<std::size_t>(count_)), callers;
    inboxes[0] = "tcp://" + meeting.host + ":" + inbox_port();
    while (callers.size() + 1 < inboxes.size()) {
      Message caller, said;
      const std::string others =
          std::to_string(callers.size()) + " of " + std::to_string(count_ - 1) + " other processes came to " + here;
      check(caller.receive(door, 0) && said.receive(door, 0), others);
      std::string address = said.sender_address();
      if (address.starts_with("127.")) address = meeting.host;  // of this machine, as others know it
      int rank = 0, port = 0;
      if (!(std::istringstream(said.text()) >> rank >> port) || rank < 1 || rank >= count_)
        throw std::runtime_error("parallel: " + address + " came to " + here + " and is none of the processes");
      inboxes[std::size_t(rank)] = "tcp://" + address + ":" + std::to_string(port);
      callers.push_back(caller.text());
    }
    std::string all;
    for (const std::string& inbox : inboxes) all += inbox + "\n";
    for (const std::string& caller : callers) {
      zmq_send(door, caller.data(), caller.size(), ZMQ_SNDMORE);
      zmq_send(door, all.data(), all.size(), 0);
    }
    zmq_close(door);
    return inboxes;
  }
  std::vector<std::string> meet_first(const Meeting& meeting) {
    void* door = meeting_socket(ZMQ_DEALER, meeting.timeout);
    const std::string there = "tcp://" + meeting.host + ":" + std::to_string(meeting.port);
    check(zmq_connect(door, there.c_str()) == 0, there);
    const std::string said = std::to_string(rank_) + " " + inbox_port();
    zmq_send(door, said.data(), said.size(), 0);
    Message told;
    check(told.receive(door, 0), there);
    zmq_close(door);
    std::vector<std::string> inboxes;
    std::istringstream lines(told.text());
    for (std::string inbox; lines >> inbox;) inboxes.push_back(inbox);
    return inboxes;
  }

  void send(int process, int tag, std::span<const std::byte> bytes) {
    const Header header{rank_, tag};
    const std::lock_guard lock(mutex_);
    check(zmq_send(outboxes_[std::size_t(process)], &header, sizeof header, ZMQ_SNDMORE) >= 0 &&
              zmq_send(outboxes_[std::size_t(process)], bytes.data(), bytes.size(), 0) >= 0,
          "zmq_send");
  }
  // Empties the inbox; returns true if it has had a message of this kind.
  bool take(int process, int tag, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    for (Message header, body; header.receive(inbox_, ZMQ_DONTWAIT) && body.receive(inbox_, 0);) {
      Header h;
      std::memcpy(&h, header.data(), sizeof h);
      there_[h].push_back(std::move(body));
    }
    std::deque<Message>& messages = there_[{process, tag}];
    if (messages.empty()) return false;
    if (messages.front().size() != bytes.size()) throw std::runtime_error("parallel: a message has another length");
    if (!bytes.empty()) std::memcpy(bytes.data(), messages.front().data(), bytes.size());
    messages.pop_front();
    return true;
  }

  const int rank_, count_;
  void *const context_, *const inbox_;
  std::vector<void*> outboxes_;  // by process
  std::mutex mutex_;             // a socket is for one thread at a time
  std::map<Header, std::deque<Message>> there_;
};

}  // namespace
}  // namespace foldgrad

extern "C" foldgrad::Processes* foldgrad_join_zmq(const foldgrad::Meeting& meeting) {
  return new foldgrad::ZmqProcesses(meeting);
}
