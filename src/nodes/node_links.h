// Implements RankLinks over TCP, with one rank per node; rank 0 is the head. Followers connect only to the
// head, twice each, so only the head needs an open port. Data between two followers passes through the head.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/rank_links.h"
#include "nodes/batch_code.h"
#include "nodes/facts.h"
#include "nodes/secret.h"
#include "nodes/watch.h"
#include "nodes/wire.h"

namespace nibble::nodes {

// Parses the address of the head: "10.0.0.1:7000", "[fe80::1]:7000", "localhost:7000". Throws InputError for
// any other text, and for wildcard and multicast addresses.
tcp::endpoint read_address(const std::string& text);

struct NodeOptions {
  tcp::endpoint head;
  Secret secret;
  Facts facts;
  std::vector<Share> shares;  // one entry per node, by rank
  int rank;                   // rank of this node
  GroupId group{};            // on the head: the id that followers receive
  // Called once if a node is lost, on the watch's thread, after waiting calls were notified. Must end the
  // process.
  std::function<void(const std::string& what)> on_lost;
  // On the head, the timeout for all followers to join; on a follower, the timeout for the head to answer.
  std::chrono::seconds patience{120};
};

class NodeLinks final : public RankLinks {
 public:
  // Starts the head. Returns when all followers have joined; refuses later connections. Throws InputError if
  // the head can't listen on the address, NodeLost if a follower did not join in time.
  static std::shared_ptr<NodeLinks> lead(const NodeOptions& options, const Room& room);
  // Starts a follower. Throws InputError if the head refuses it, NodeLost if no head answers.
  static std::shared_ptr<NodeLinks> join(const NodeOptions& options);
  ~NodeLinks() override;

  const Room& room() const { return room_; }

  const Share& share() const override { return shares_[static_cast<size_t>(rank_)]; }
  void add_up(std::span<float> terms) override;
  void collect(View<float, 2> logits) override;
  const GroupId& group() const override { return group_; }
  void check_alive() const override;

  // Barrier after loading: the head waits until all followers report a ready backend.
  void meet();
  // On the head, send_step() sends a step to all followers. On a follower, receive_step() returns the next
  // step, or nullopt when the head is done.
  void send_step(const Bytes& batch);
  std::optional<Bytes> receive_step(size_t most_bytes);

  void end_all() { watch_.leave_done(); }  // tells the followers that the head is done, which ends them
  // Tells the other nodes that this node ends with an error before its first step.
  void give_up(const std::string& why) { watch_.leave_failed(why); }
  // Ends the group because this node can't finish its step. First gives the watch time to report a lost node,
  // which may be the real reason: when a node is killed, device operations of the other nodes fail too.
  void lose(const std::string& why);

 private:
  enum class Kind : uint32_t { kReady, kStep, kSum, kLogits };
  struct Header {
    Kind kind;
    uint32_t bytes;   // size of the payload that follows
    uint64_t number;  // sequence number of the message, counted over all kinds
  };

  explicit NodeLinks(const NodeOptions& options);
  bool is_head() const { return rank_ == 0; }
  int num_nodes() const { return static_cast<int>(shares_.size()); }
  Header next(Kind kind, size_t bytes) { return {kind, static_cast<uint32_t>(bytes), ++num_messages_}; }
  // Waits until all transfers have ended. Returns false if the head is done; NodeLost if a node is lost.
  bool wait(std::optional<std::chrono::seconds> patience);
  void must_wait();
  void check(const Header& got, const Header& expected, int rank);

  std::vector<Share> shares_;
  int rank_;
  Room room_;
  GroupId group_;
  uint64_t num_messages_{0};
  // add_up(): received terms, [rank][count]; collect(): logits, packed by rank
  std::vector<float> floats_;
  std::vector<Header> headers_;  // received headers, indexed by rank
  Wire wire_;
  Watch watch_;  // last: its thread uses the other members
};

}  // namespace nibble::nodes
