// Bounds the memory of request bodies over all connections. Without this bound, the worst case is the largest
// body times the number of connections. Used on the I/O thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "server/http/http_error.h"

namespace nibble::server {

class BodyBudget {
 public:
  // Bodies of up to `uncounted_bytes` are always accepted, so that large bodies can't starve small requests.
  BodyBudget(uint64_t max_bytes, uint64_t uncounted_bytes)
      : max_bytes_(max_bytes), uncounted_bytes_(uncounted_bytes) {}

  uint64_t num_bytes() const { return num_bytes_; }  // sum over all shares

  // Bytes of the budget that one body has reserved; the destructor releases them. May outlive the server.
  class Share {
   public:
    explicit Share(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
    Share(Share&&) = default;
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (budget_) budget_->num_bytes_ -= num_bytes_;
    }

    // Throws HttpError (429) if the budget has no room for this body now.
    void check(uint64_t num_bytes) const {
      if (!counts(num_bytes) || num_bytes - num_bytes_ <= budget_->max_bytes_ - budget_->num_bytes_) return;
      throw HttpError(
          429, "the bodies of other requests use the {} bytes of memory reserved for bodies; try again later",
          budget_->max_bytes_);
    }
    // Raises the share to `num_bytes`, the bytes received. Throws HttpError (429) if the budget is exhausted.
    void reserve(uint64_t num_bytes) {
      check(num_bytes);
      if (!counts(num_bytes)) return;
      budget_->num_bytes_ += num_bytes - num_bytes_;
      num_bytes_ = num_bytes;
    }
    void reserve_more(uint64_t num_bytes) { reserve(num_bytes_ + num_bytes); }

   private:
    bool counts(uint64_t num_bytes) const {
      return num_bytes > num_bytes_ && num_bytes > budget_->uncounted_bytes_;
    }

    std::shared_ptr<BodyBudget> budget_;
    uint64_t num_bytes_{0};
  };

 private:
  uint64_t max_bytes_, uncounted_bytes_;
  uint64_t num_bytes_{0};
};

}  // namespace nibble::server
