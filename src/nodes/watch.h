// Detects lost nodes. Every node sends one heartbeat per second over the control connection. A peer is lost
// if it closes this connection or sends no heartbeat for three seconds. All waiting calls are notified when a
// node is lost and when the head is done.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nodes/asio.h"
#include "nodes/node_lost.h"

namespace nibble::nodes {

inline constexpr std::chrono::seconds kHeartbeat{1}, kSilence{3};

struct End {
  bool is_done{false};  // true: the head has finished; false: a node was lost
  std::string why{};
};

class Watch {
 public:
  // `on_end` is called once, on this object's thread, when the group ends.
  explicit Watch(std::function<void(const End&)> on_end);
  ~Watch();

  asio::io_context& io() { return io_; }
  // Starts to watch a node, whose connection must belong to io(). Any thread may call it.
  void add(int rank, tcp::socket control);

  std::optional<End> end() const;
  std::optional<End> wait_end(std::chrono::milliseconds patience);  // waits for the end, at most `patience`

  // Ends the group. Call it when a node is lost or this node can't continue; any thread may. Only the first
  // call counts.
  void lose(std::string why);
  // leave_done() reports to the other nodes that the head is done, leave_failed() that this node has failed.
  // Neither calls `on_end`. Afterwards only the destructor may be called.
  void leave_done();
  void leave_failed(const std::string& why);

 private:
  struct Peer;
  asio::awaitable<void> listen(Peer& peer);
  asio::awaitable<void> beat();
  void lose_here(std::string why);
  void end_here(End end);
  void tell_all(const std::vector<uint8_t>& message);
  void leave(std::vector<uint8_t> message);

  std::function<void(const End&)> on_end_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer next_beat_;
  std::vector<std::unique_ptr<Peer>> peers_;
  bool is_leaving_{false};
  mutable std::mutex mutex_;  // guards end_
  std::condition_variable ended_;
  std::optional<End> end_;
  std::thread thread_;
};

}  // namespace nibble::nodes
