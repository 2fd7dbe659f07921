#include "engine/parallel/communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <regex>
#include <thread>

#include "engine/parallel/in_turns.h"
#include "tests/engine/error_message.h"
#include "tests/engine/parallel/wired_processes.h"

namespace foldgrad::testing {
namespace {

// Returns the value of element i on rank r. Sums of these values are rounded.
float value(int r, std::size_t i) { return float(std::sin(1.0 + double(i) + 17.0 * r)); }

// Returns the sum over ranks [begin, end), added as a binary tree.
float tree(int begin, int end, std::size_t i) {
  if (end - begin == 1) return value(begin, i);
  const int middle = (begin + end) / 2;
  return tree(begin, middle, i) + tree(middle, end, i);
}

TEST(Communicator, SumsAreThoseOfABinaryTree) {
  for (const int ranks : {1, 2, 4, 8})
    for (const std::size_t n : {0u, 1u, 3u, 1000u, 4096u, 4097u, 10001u}) {  // sums of up to 4,096 floats are small
      std::vector<std::vector<float>> got(static_cast<std::size_t>(ranks));
      Team({.ranks = ranks}).run([&](Communicator& c) {
        std::vector<float> values(n);
        for (std::size_t i = 0; i < n; ++i) values[i] = value(c.rank(), i);
        c.all_reduce_sum(std::span(values));
        got[std::size_t(c.rank())] = values;
      });
      for (const auto& values : got)
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], tree(0, ranks, i)) << ranks << " ranks, element " << i;
    }
}

TEST(Communicator, ATreeRoundsOtherwiseThanASumFromLeftToRight) {
  int different = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    float sum = 0;
    for (int r = 0; r < 8; ++r) sum += value(r, i);
    different += sum != tree(0, 8, i);
  }
  EXPECT_GT(different, 100);  // otherwise the test above would also accept other orders
}

TEST(Communicator, PAR_1_SendsWhatTheFormulaSays) {
  const std::size_t n = 8192;  // a multiple of 8, so all ranks sum equally many elements
  Team({.ranks = 8}).run([&](Communicator& c) {
    std::vector<double> values(n, 1);
    c.all_reduce_sum(std::span(values));
    EXPECT_EQ(c.traffic().bytes, std::int64_t(2 * n * 7 / 8 * sizeof(double)));
    EXPECT_EQ(c.traffic().exchanges, 6);
    std::vector<double> small(100, 1);
    c.all_reduce_sum(std::span(small));
    EXPECT_EQ(c.traffic().bytes, std::int64_t((2 * n * 7 / 8 + 3 * 100) * sizeof(double)));
  });
}

TEST(Communicator, GathersInTheOrderOfRanks) {
  Team({.ranks = 4}).run([](Communicator& c) {
    const std::vector<std::int64_t> own{10 * c.rank(), 10 * c.rank() + 1};
    EXPECT_EQ(c.all_gather(std::span(own)), (std::vector<std::int64_t>{0, 1, 10, 11, 20, 21, 30, 31}));
  });
}

TEST(Communicator, BroadcastsFromRank0) {
  for (const int ranks : {1, 2, 8})
    Team({.ranks = ranks}).run([](Communicator& c) {
      std::vector<int> values{c.rank(), c.rank() + 1};
      c.broadcast(std::span(values));
      EXPECT_EQ(values, (std::vector<int>{0, 1}));
      const Tensor t = Tensor::full({3}, c.rank() + 1, DType::i64);
      c.broadcast(t);
      EXPECT_EQ(t.values<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 1}));
    });
}

TEST(Communicator, GathersAsManyAsEachHas) {
  Team({.ranks = 4}).run([](Communicator& c) {
    const std::vector<int> own(std::size_t((c.rank() + 3) % 4), c.rank());
    EXPECT_EQ(c.all_gather_each(std::span(own)), (std::vector<std::vector<int>>{{0, 0, 0}, {}, {2}, {3, 3}}));
  });
}

TEST(Communicator, FindsTheFirstText) {
  Team({.ranks = 4}).run([](Communicator& c) {
    EXPECT_EQ(c.first_text(""), "");
    EXPECT_EQ(c.first_text(c.rank() < 2 ? "" : std::string(std::size_t(9 - c.rank()), 'x')), "xxxxxxx");
  });
}

TEST(Communicator, TextsThatDifferAreShownByTheirFirstDifferentLine) {
  const auto refusal = [](const std::string& of_rank_1) {
    return message<std::invalid_argument>([&] {
      Team({.ranks = 2}).run([&](Communicator& c) {
        require_alike(c, {{"lines", c.rank() == 1 ? of_rank_1 : "one\ntwo\nthree"}});
      });
    });
  };
  EXPECT_EQ(refusal("0ne\ntwo\nthree"),
            "parallel: all ranks must have the same lines: rank 1 has \"0ne\", rank 0 has \"one\"");
  EXPECT_EQ(refusal("one\ntoo\nthree"),
            "parallel: all ranks must have the same lines: rank 1 has \"too\", rank 0 has \"two\"");
}

TEST(Communicator, AnyIsTrueIfOneRankSaysSo) {
  Team({.ranks = 4}).run([](Communicator& c) {
    EXPECT_FALSE(c.any(false));
    for (int r = 0; r < 4; ++r) EXPECT_TRUE(c.any(c.rank() == r));
  });
}

TEST(Communicator, ManyOperationsOneAfterAnother) {
  Team({.ranks = 4}).run([](Communicator& c) {
    for (int i = 0; i < 500; ++i) {
      std::vector<double> sum{double(i + c.rank())};
      c.all_reduce_sum(std::span(sum));
      ASSERT_EQ(sum[0], 4 * i + 6);
      const int own = i * (c.rank() + 1);
      ASSERT_EQ(c.all_gather(std::span(&own, 1)), (std::vector<int>{i, 2 * i, 3 * i, 4 * i}));
    }
  });
}

TEST(Communicator, TensorsOfEitherType) {
  Team({.ranks = 2}).run([](Communicator& c) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor t = Tensor::full({3, 2}, 1 + c.rank(), dtype);
      c.all_reduce_sum(t);
      EXPECT_EQ(t.to(DType::f64).values<double>(), std::vector<double>(6, 3));
    }
  });
}

// All messages have the same length. So if a message reaches the wrong receiver, only the sums show it.
TEST(Communicator, AnotherOneServesAnotherThread) {
  for (const int processes : {1, 2, 4})
    run_ranks(4, processes, [](Communicator& c) {
      const std::unique_ptr<Communicator> another = c.another();
      const std::int64_t before = c.traffic().exchanges;
      const auto sums = [](Communicator& of, double begin) {
        for (int i = 0; i < 200; ++i) {
          double sum = begin * i;
          of.all_reduce_sum(std::span(&sum, 1));
          ASSERT_EQ(sum, 4 * begin * i);
        }
      };
      std::thread thread([&] { sums(*another, 3); });
      sums(c, 5);
      thread.join();
      EXPECT_EQ(another->traffic().exchanges, 400);
      EXPECT_EQ(c.traffic().exchanges - before, 400);
    });
}

TEST(Communicator, AWaitingThreadCanBeInterrupted) {
  for (const int processes : {1, 2})
    run_ranks(2, processes, [](Communicator& c) {
      const std::unique_ptr<Communicator> another = c.another();
      std::string text;
      if (c.rank() == 0) {
        std::thread thread([&] { text = message<CommunicationError>([&] { another->barrier(); }); });
        another->interrupt();
        thread.join();
        EXPECT_EQ(text, "all_reduce_sum: interrupted");
      }
      c.barrier();
    });
}

TEST(InTurnsOfTeam, AllHaveTheResultsInOrder) {
  for (const int ranks : {1, 2, 4})
    for (const std::int64_t count : {0, 1, 3, 4, 9})
      Team({.ranks = ranks}).run([&](Communicator& c) {
        const auto work = [&](std::int64_t i) {
          EXPECT_EQ(i % ranks, c.rank());
          return std::vector<std::int64_t>(std::size_t(i % 3), i);
        };
        const auto results = in_turns<std::int64_t>(&c, count, work);
        ASSERT_EQ(std::int64_t(results.size()), count);
        for (std::int64_t i = 0; i < count; ++i)
          EXPECT_EQ(results[std::size_t(i)], std::vector<std::int64_t>(std::size_t(i % 3), i)) << ranks;
      });
}

TEST(InTurnsOfTeam, OneAloneDoesAll) {
  const auto results = in_turns<int>(nullptr, 3, [](std::int64_t i) { return std::vector<int>{int(i)}; });
  EXPECT_EQ(results, (std::vector<std::vector<int>>{{0}, {1}, {2}}));
}

TEST(Team, AnExceptionOnOneRankEndsAll) {
  for (int thrower = 0; thrower < 4; ++thrower) {
    int ended = 0;
    std::mutex mutex;
    EXPECT_EQ(message<std::invalid_argument>([&] {
                Team({.ranks = 4}).run([&](Communicator& c) {
                  try {
                    for (int i = 0; i < 10; ++i) {
                      std::vector<float> values(20000, 1);
                      c.all_reduce_sum(std::span(values));
                      if (i == 5 && c.rank() == thrower) throw std::invalid_argument("out of order");
                    }
                  } catch (const CommunicationError& e) {
                    const std::lock_guard lock(mutex);
                    ++ended;
                    throw;
                  }
                });
              }),
              "out of order");
    EXPECT_EQ(ended, 3);
  }
}

TEST(Team, AWaitThatIsTooLongNamesOperationStepAndRank) {
  const std::string text = message<CommunicationError>([] {
    Team({.ranks = 4, .timeout = 1}).run([](Communicator& c) {
      c.at_step(12);
      c.barrier();
      if (c.rank() == 2) return;
      const int own = 0;
      c.all_gather(std::span(&own, 1));
    });
  });
  EXPECT_NE(text.find("all_gather: at step 12 rank "), std::string::npos) << text;
  EXPECT_NE(text.find("waited 1 s for rank "), std::string::npos) << text;
  // On a busy machine other ranks may be late, too.
  EXPECT_TRUE(std::regex_search(text, std::regex("missing: rank (\\d, )*2"))) << text;
}

TEST(Team, Errors) {
  EXPECT_EQ(message<std::invalid_argument>([] { Team({.ranks = 3}); }),
            "parallel: the number of ranks must be a power of two, got 3");
  EXPECT_EQ(message<std::invalid_argument>([] { Team({.ranks = 0}); }),
            "parallel: the number of ranks must be a power of two, got 0");
}

}  // namespace
}  // namespace foldgrad::testing
