// Decides after which tokens of an answer a stream sends an event (--stream-interval). The first text is sent
// at once, later events at least `interval` tokens apart, the rest at the answer's end.
#pragma once

namespace nibble::server {

class StreamPace {
 public:
  explicit StreamPace(int interval = 1) : interval_(interval) {}

  void add_token() { ++num_unsent_; }
  bool is_due() const { return !has_sent_ || num_unsent_ >= interval_; }
  void count_event() {
    has_sent_ = true;
    num_unsent_ = 0;
  }
  bool joins() const { return interval_ > 1; }

 private:
  int interval_;
  int num_unsent_{0};  // tokens since the last event
  bool has_sent_{false};
};

}  // namespace nibble::server
