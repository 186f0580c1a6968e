#include "server/service/parse_pool.h"

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

#include "core/memory/with_memory.h"

namespace nibble::server {
namespace asio = boost::asio;

ParsePool::ParsePool(size_t num_threads) : max_long_(num_threads - 1), threads_(num_threads) {}

ParsePool::~ParsePool() { stop(); }

void ParsePool::stop() {
  std::list<JobPtr> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
  }
  threads_.stop();
  threads_.join();
}

void ParsePool::add(JobPtr job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  // Retry until memory is available; otherwise no thread would run this job until another job is added.
  with_memory([&] { asio::post(threads_, [this] { run_jobs(); }); });
}

void ParsePool::drop(const JobPtr& job) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(waiting_, job);
    if (found == waiting_.end()) return;
    waiting_.erase(found);
  }
  job->end(std::make_exception_ptr(boost::system::system_error(asio::error::operation_aborted)));
}

// Takes the next job; null if none may run now. While max_long_ long jobs run, other long jobs wait.
ParsePool::JobPtr ParsePool::take() {
  const std::lock_guard lock(mutex_);
  auto chosen = waiting_.end();
  const bool takes_oldest = num_taken_ % kTurn == kTurn - 1;
  for (auto job = waiting_.begin(); job != waiting_.end(); ++job) {
    if ((*job)->num_bytes > kLongBytes && num_long_ == max_long_) continue;
    if (chosen == waiting_.end() || (!takes_oldest && (*job)->num_bytes < (*chosen)->num_bytes)) chosen = job;
  }
  if (chosen == waiting_.end()) return nullptr;
  JobPtr job = std::move(*chosen);
  waiting_.erase(chosen);
  ++num_taken_;
  if (job->num_bytes > kLongBytes) ++num_long_;
  return job;
}

void ParsePool::run_jobs() {
  while (const JobPtr job = take()) {
    std::exception_ptr error;
    try {
      job->work();
    } catch (...) {
      error = std::current_exception();
    }
    if (job->num_bytes > kLongBytes) {
      const std::lock_guard lock(mutex_);
      --num_long_;
    }
    job->end(error);
  }
}

asio::awaitable<void> ParsePool::run(size_t num_bytes, std::function<void()> work,
                                     std::function<void(std::function<void()>)> set_drop) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_await asio::async_initiate<decltype(asio::use_awaitable), void(std::exception_ptr)>(
      [&](auto handler) {
        auto goes_on = std::make_shared<decltype(handler)>(std::move(handler));
        auto job = std::make_shared<Job>(Job{
            num_bytes, std::move(work), [executor, goes_on = std::move(goes_on)](std::exception_ptr error) {
              with_memory([&] { asio::post(executor, [goes_on, error] { std::move (*goes_on)(error); }); });
            }});
        add(job);
        // A weak pointer, because the exchange owns this function, and the job owns the exchange.
        set_drop([this, waits = std::weak_ptr(job)] {
          if (const JobPtr left = waits.lock()) drop(left);
        });
      },
      asio::use_awaitable);
}

}  // namespace nibble::server
