// Tests device links, through which ranks in separate (simulated) processes exchange data from GPU to GPU. Also tests
// how the ranks agree on using links.
#include "engine/parallel/device_link.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/parallel/wired_processes.h"

namespace foldgrad::testing {
namespace {

using Opener = std::function<OpenDeviceLink(Wire&, int)>;

OpenDeviceLink no_link(Wire&, int) { return {}; }
OpenDeviceLink link_of(Wire& wire, int process) {
  return [&wire, process] { return std::make_unique<WiredLink>(wire, process); };
}

// Returns a function from a process to link_of(wire, process).
std::function<OpenDeviceLink(int process)> links(Wire& wire) {
  return [&wire](int process) { return link_of(wire, process); };
}

class DeviceLinkOfTeam : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

// Sums n elements over the ranks, and returns the result of each rank. The sums are rounded, so their bits depend on
// the order of the additions.
template <class T>
std::vector<std::vector<T>> sums(Wire& wire, int ranks, std::int64_t n, const Opener& open) {
  std::vector<std::vector<T>> all(static_cast<std::size_t>(ranks));
  run_teams(
      wire, ranks, ranks, [&](int p) { return open(wire, p); },
      [&](const Team&, Communicator& c) {
        std::vector<T> values(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = T(std::sin(1.0 + double(i) + 17.0 * c.rank()));
        const Tensor t = Tensor::of({n}, values, Device::cuda);
        c.all_reduce_sum(t);
        all[std::size_t(c.rank())] = t.values<T>();
      });
  return all;
}

template <class T>
void expect_bits_of_the_host(int ranks, std::int64_t n) {
  Wire host(true), linked(true);
  EXPECT_EQ(sums<T>(linked, ranks, n, link_of), sums<T>(host, ranks, n, no_link)) << ranks << " ranks, " << n;
  EXPECT_EQ(linked.linked_bytes(0) > 0, n > 0) << n;
}

TEST_F(DeviceLinkOfTeam, SumsHaveTheBitsOfTheHost) {
  for (const int ranks : {2, 4})
    for (const std::int64_t small : {4096 / 2, 4096})  // the largest small sums in f64 and f32
      for (const std::int64_t n :
           {std::int64_t(0), std::int64_t(1), std::int64_t(7), small, small + 1, 2 * small + 3}) {
        expect_bits_of_the_host<float>(ranks, n);
        expect_bits_of_the_host<double>(ranks, n);
      }
}

TEST_F(DeviceLinkOfTeam, PAR_1_SendsWhatTheFormulaSays) {
  const std::size_t n = 8192;  // a multiple of 4, so all ranks sum equally many elements
  Wire wire(true);
  sums<double>(wire, 4, n, link_of);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(wire.linked_bytes(r), 2 * n * 3 / 4 * sizeof(double));
}

// Two ranks exchange a message through the host before they exchange data through the link. So the team notices a
// missing rank within its time limit.
TEST_F(DeviceLinkOfTeam, AMessageOfTheHostComesBeforeEachExchange) {
  Wire wire(true);
  sums<float>(wire, 2, 10000, link_of);
  std::vector<bool> linked;  // for each message of rank 0, true if the link sent it
  for (const Wire::Sent& s : wire.all())
    if (s.from == 0) linked.push_back(s.tag == Wire::kLinkTag);
  EXPECT_EQ(std::vector(linked.end() - 5, linked.end()), (std::vector<bool>{false, false, true, false, true}));
}

TEST_F(DeviceLinkOfTeam, BroadcastsAnyType) {
  Wire wire(true);
  run_teams(wire, 4, 4, links(wire), [](const Team&, Communicator& c) {
    const Tensor t = Tensor::of<std::int64_t>({2}, {c.rank() + 1, c.rank() + 2}, Device::cuda);
    c.broadcast(t);
    EXPECT_EQ(t.values<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
  });
  EXPECT_EQ(wire.linked_bytes(0), 2u * 16);
}

// Checks a sum over two ranks. The tensor of rank 1 is on the host.
void expect_mixed_sum(Communicator& c) {
  const Tensor t = Tensor::of<float>({3}, {1, 2, float(c.rank())}, c.rank() == 1 ? Device::cpu : Device::cuda);
  c.all_reduce_sum(t);
  EXPECT_EQ(t.values<float>(), (std::vector<float>{2, 4, 1}));
}

TEST_F(DeviceLinkOfTeam, ATensorOfTheHostGoesTheSameWay) {
  Wire wire(true);
  run_teams(wire, 2, 2, links(wire), [](const Team& team, Communicator& c) {
    EXPECT_EQ(team.link_trouble(), "");
    expect_mixed_sum(c);
  });
  EXPECT_EQ(wire.linked_bytes(1), 12u);
}

struct WithoutLink {
  std::string trouble;
  std::function<OpenDeviceLink(Wire&)> of_rank_1;
};

class UnableToJoin final : public DeviceLink {
 public:
  Uuid uuid() const override { return {std::byte(9)}; }
  std::string make_id() override { return "id"; }
  void join(const std::string&, int, int) override { throw std::runtime_error("no way to the others"); }
  void exchange(int, std::span<const std::byte>, std::span<std::byte>) override { std::abort(); }
};

TEST_F(DeviceLinkOfTeam, WhereOneRankHasNoneNobodyUsesIt) {
  const std::vector<WithoutLink> all{
      {"rank 1: computes on the CPU", [](Wire&) { return OpenDeviceLink(); }},
      {"rank 1: no library",
       [](Wire&) { return []() -> std::unique_ptr<DeviceLink> { throw std::runtime_error("no library"); }; }},
      {"rank 0: shares its GPU with another rank", [](Wire& wire) { return link_of(wire, 0); }},
      {"rank 1: no way to the others", [](Wire&) { return [] { return std::make_unique<UnableToJoin>(); }; }}};
  for (const WithoutLink& without : all) {
    Wire wire(true);
    run_teams(
        wire, 2, 2, [&](int p) { return p == 1 ? without.of_rank_1(wire) : link_of(wire, p); },
        [&](const Team& team, Communicator& c) {
          EXPECT_EQ(team.link_trouble(), without.trouble);
          expect_mixed_sum(c);
        });
    EXPECT_EQ(wire.linked_bytes(0), 0u) << without.trouble;
  }
}

TEST_F(DeviceLinkOfTeam, TwoRanksOfAProcessUseTheHost) {
  Wire wire;
  run_teams(wire, 4, 2, links(wire), [](const Team& team, Communicator& c) {
    EXPECT_EQ(team.link_trouble(), "several ranks share a process");
    const Tensor t = Tensor::of<double>({1}, {double(c.rank())}, Device::cuda);
    c.all_reduce_sum(t);
    EXPECT_EQ(t.item(), 6);
  });
  EXPECT_EQ(wire.linked_bytes(0), 0u);
}

}  // namespace
}  // namespace foldgrad::testing
