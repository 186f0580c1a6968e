// Threads for work that takes too long for the I/O thread: parsing and tokenising bodies of megabytes. Short jobs overtake long ones, and
// jobs of clients that have left are dropped.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace nibble::server {

class ParsePool {
 public:
  // At most `num_threads` - 1 of the threads run long jobs at one time.
  explicit ParsePool(size_t num_threads);
  ~ParsePool();

  struct Job {
    size_t num_bytes;            // how much it reads: says how long it takes
    std::function<void()> work;  // runs on a thread of the pool
    std::function<void(std::exception_ptr)>
        end;  // called once after it, there, or by drop(); gets what `work` threw
  };
  using JobPtr = std::shared_ptr<Job>;

  void add(JobPtr job);
  // A job that has not begun ends with the error operation_aborted, and does not run.
  void drop(const JobPtr& job);
  // Finishes the jobs that run, and ends the threads. Jobs that wait are destroyed: they neither run nor end.
  void stop();

  // Runs `work` on a thread of the pool, and goes on on the caller's. `set_drop` is given the function that drops the job.
  boost::asio::awaitable<void> run(size_t num_bytes, std::function<void()> work,
                                   std::function<void(std::function<void()>)> set_drop);

 private:
  static constexpr size_t kLongBytes{256 << 10};
  // Every so many jobs the oldest is run instead of the shortest, so that the long ones get their turn too.
  static constexpr int kTurn{8};

  void run_jobs();
  JobPtr take();

  size_t max_long_;
  std::mutex mutex_;           // of what follows
  std::list<JobPtr> waiting_;  // the oldest first
  size_t num_long_{0};         // that run
  int num_taken_{0};
  boost::asio::thread_pool threads_;
};

}  // namespace nibble::server
