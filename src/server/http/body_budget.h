// Memory for the bodies of requests, which all connections share: else it would be what one body may have times how many
// connections there are. All of it belongs to the I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "server/http/api_error.h"

namespace nibble::server {

class BodyBudget {
 public:
  // Bodies of up to `uncounted_bytes` are taken whatever others hold: large ones can't keep small requests out.
  BodyBudget(uint64_t max_bytes, uint64_t uncounted_bytes)
      : max_bytes_(max_bytes), uncounted_bytes_(uncounted_bytes) {}

  uint64_t num_bytes() const { return num_bytes_; }  // that shares hold

  // What one body takes, for as long as this lives. It may outlive who made the budget.
  class Share {
   public:
    explicit Share(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
    Share(Share&&) = default;
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (budget_) budget_->num_bytes_ -= num_bytes_;
    }

    // The body has so many bytes, or is going to. Throws ApiError (429) where there is no room for them.
    void cover(uint64_t num_bytes) {
      if (num_bytes <= num_bytes_ || num_bytes <= budget_->uncounted_bytes_) return;
      const uint64_t more = num_bytes - num_bytes_;
      if (more > budget_->max_bytes_ - budget_->num_bytes_)
        throw ApiError(
            429, "the bodies of other requests fill the {} bytes that there are for them; try again later",
            budget_->max_bytes_);
      budget_->num_bytes_ += more;
      num_bytes_ = num_bytes;
    }
    void cover_more(uint64_t num_bytes) { cover(num_bytes_ + num_bytes); }

   private:
    std::shared_ptr<BodyBudget> budget_;
    uint64_t num_bytes_{0};
  };

 private:
  uint64_t max_bytes_, uncounted_bytes_;
  uint64_t num_bytes_{0};
};

}  // namespace nibble::server
