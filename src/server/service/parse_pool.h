// Threads for work that would block the I/O thread: parsing and tokenising bodies of megabytes. Short jobs
// overtake long ones; jobs of clients that have disconnected are dropped.
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
  explicit ParsePool(size_t num_threads);  // at most `num_threads` - 1 threads run long jobs
  ~ParsePool();

  struct Job {
    size_t num_bytes;            // bytes to read; estimates how long the job takes
    std::function<void()> work;  // runs on a thread of the pool
    // Called once: after `work` on the same thread, with the exception that `work` threw; or by drop().
    std::function<void(std::exception_ptr)> end;
  };
  using JobPtr = std::shared_ptr<Job>;

  void add(JobPtr job);
  void drop(const JobPtr& job);  // ends a job that has not started, with the error operation_aborted
  // Waits for running jobs and ends the threads. Waiting jobs are destroyed without `work` and `end`.
  void stop();

  // Runs `work` on the pool, resumes on the caller's executor. set_drop() gets a function to drop the job.
  boost::asio::awaitable<void> run(size_t num_bytes, std::function<void()> work,
                                   std::function<void(std::function<void()>)> set_drop);

 private:
  static constexpr size_t kLongBytes{256 << 10};
  // Every kTurn-th job is the oldest, not the shortest, so that long jobs do not starve.
  static constexpr int kTurn{8};

  void run_jobs();
  JobPtr take();

  size_t max_long_;
  std::mutex mutex_;           // guards the members below
  std::list<JobPtr> waiting_;  // oldest first
  size_t num_long_{0};         // long jobs that are running
  int num_taken_{0};
  boost::asio::thread_pool threads_;
};

}  // namespace nibble::server
