// Tests in which order jobs run, and which jobs never run.
#include "server/service/parse_pool.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <vector>

namespace nibble::server {
namespace {

constexpr size_t kShort{1000}, kLong{8 << 20};

// Records the order of jobs. Gated jobs wait until the test opens the gate.
class ParsePoolOfTwo : public testing::Test {
 protected:
  ParsePool::JobPtr add(size_t num_bytes, int number) {
    auto job = std::make_shared<ParsePool::Job>(
        ParsePool::Job{num_bytes, [this, number] { note(number); },
                       [this](const std::exception_ptr&) { ended_.release(); }});
    pool_.add(job);
    return job;
  }
  // Occupies a thread until the gate opens.
  void add_gated(size_t num_bytes) {
    pool_.add(std::make_shared<ParsePool::Job>(ParsePool::Job{num_bytes,
                                                              [this] {
                                                                begun_.release();
                                                                gate_.acquire();
                                                              },
                                                              [](const std::exception_ptr&) {}}));
    begun_.acquire();
  }
  void wait_for(int num_jobs) {
    for (int i = 0; i < num_jobs; ++i) ended_.acquire();
  }
  void note(int number) {
    const std::lock_guard lock(mutex_);
    order_.push_back(number);
  }

  std::mutex mutex_;
  std::vector<int> order_;
  std::counting_semaphore<> begun_{0}, gate_{0}, ended_{0};
  ParsePool pool_{2};
};

TEST_F(ParsePoolOfTwo, AShortJobRunsWhileLongOnesRunAndWait) {
  add_gated(kLong);
  for (int i = 1; i <= 3; ++i) add(kLong, i);
  add(kShort, 0);
  wait_for(1);
  EXPECT_EQ(order_, std::vector({0}));
  gate_.release(1);
  wait_for(3);
  EXPECT_EQ(order_, std::vector({0, 1, 2, 3}));
}

TEST_F(ParsePoolOfTwo, TheShortestRunsFirstAndNowAndThenTheOldest) {
  add_gated(kLong);
  add_gated(kShort);  // this is the second job taken
  for (int i = 0; i < 10; ++i) add(100'000 - static_cast<size_t>(i), i);
  gate_.release(1);  // ends one of the two jobs; the other thread stays occupied
  wait_for(10);
  // Every eighth job taken is the oldest one that waits: here job 0, after two gated jobs and five others.
  EXPECT_EQ(order_, std::vector({9, 8, 7, 6, 5, 0, 4, 3, 2, 1}));
  gate_.release(1);
}

TEST_F(ParsePoolOfTwo, AJobThatIsDroppedBeforeItBeginsDoesNotRun) {
  add_gated(kLong);
  add_gated(kShort);
  const ParsePool::JobPtr dropped = add(kShort, 1);
  add(kShort, 2);
  pool_.drop(dropped);
  wait_for(1);  // the dropped job counts as ended
  gate_.release(2);
  wait_for(1);
  EXPECT_EQ(order_, std::vector({2}));
  pool_.drop(dropped);  // has no effect
}

TEST_F(ParsePoolOfTwo, AnErrorOfTheWorkReachesWhoWaitsForIt) {
  boost::asio::io_context io(1);
  std::vector<std::string> told;
  const auto ask = [&](bool is_dropped) -> boost::asio::awaitable<void> {
    try {
      co_await pool_.run(
          kShort, [] { throw std::runtime_error("wrong"); },
          [&](const std::function<void()>& drop) {
            if (is_dropped) drop();
          });
    } catch (const boost::system::system_error&) {
      told.emplace_back("dropped");
    } catch (const std::runtime_error& error) {
      told.emplace_back(error.what());
    }
  };
  boost::asio::co_spawn(io, ask(false), boost::asio::detached);
  io.run();
  add_gated(kLong);
  add_gated(kShort);
  io.restart();
  boost::asio::co_spawn(io, ask(true), boost::asio::detached);
  io.run();
  EXPECT_EQ(told, std::vector<std::string>({"wrong", "dropped"}));
  gate_.release(2);
}

}  // namespace
}  // namespace nibble::server
