// Watches the other nodes: a heartbeat goes to each over its control connection every second, and one that has been silent for three, or whose
// connection closes, is lost. Then, or when the head says that all is done, everybody who waits is told.
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

// How the group of nodes came to its end.
struct End {
  bool is_done{false};  // the head said so; else a node was lost
  std::string why{};
};

class Watch {
 public:
  // `on_end` is called once, on the thread of the watch.
  explicit Watch(std::function<void(const End&)> on_end);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  asio::io_context& io() { return io_; }
  // Watches a node from now on; its connection belongs to io(). From any thread.
  void add(int rank, tcp::socket control);

  std::optional<End> end() const;
  // Waits for it for so long.
  std::optional<End> wait_end(std::chrono::milliseconds patience);

  // A node was lost, or something else makes it impossible to go on. Tells the others. From any thread; the first end counts.
  void lose(std::string why);
  // The head is done, or this node ends with an error of its own: tells the others, and ends nothing here. Called once, last.
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
