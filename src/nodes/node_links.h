// The links of the ranks of a model over TCP, a node each. The first rank is the head: every other node has two connections to it, and none to
// the others, so that one port of one address is all that listens. What the nodes tell each other passes through the head.
#pragma once

#include <atomic>
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

// Where the head listens and the others connect to: "10.0.0.1:7000", "[fe80::1]:7000", "localhost:7000". Throws InputError for any other text,
// and for an address that means all of a machine's.
tcp::endpoint read_address(const std::string& text);

// What a node needs to join.
struct NodeOptions {
  tcp::endpoint head;
  Secret secret;
  Facts facts;
  std::vector<Share> shares;  // of all nodes
  int rank;                   // of this one
  GroupId group{};            // the head's; the others are told
  // Called once when a node was lost, on a thread of its own, after everything that waits was told. The process should end then.
  std::function<void(const std::string& what)> on_lost;
  std::chrono::seconds patience{120};  // for the others to join, and for the head to be there
};

class NodeLinks final : public RankLinks {
 public:
  // The head: listens, and returns when all have joined; who comes later is refused. Throws InputError if the address can't be listened
  // on, NodeLost if somebody did not come.
  static std::shared_ptr<NodeLinks> lead(const NodeOptions& options, const Room& room);
  // A follower. Throws InputError if the head refuses it, NodeLost if there is none.
  static std::shared_ptr<NodeLinks> join(const NodeOptions& options);
  ~NodeLinks() override;

  const Room& room() const { return room_; }

  const Share& share() const override { return shares_[static_cast<size_t>(rank_)]; }
  void add_up(std::span<float> terms) override;
  void collect(View<float, 2> logits) override;
  const GroupId& group() const override { return group_; }
  void check_alive() const override;

  // The head waits until all have a backend; a follower says that it has one.
  void meet();
  // The head's next step, to all; what a follower gets of it, or nothing when the head is done.
  void send_step(const Bytes& batch);
  std::optional<Bytes> receive_step(size_t most_bytes);

  // The head is done; the others end as well.
  void end_all() { watch_.leave_done(); }
  // This node ends with an error of its own, before it has run a step.
  void give_up(const std::string& why) { watch_.leave_failed(why); }
  // This node can't go on with the step that it has begun; unless the watch knows another reason in a moment: what a device waits for fails too
  // where another node was killed.
  void lose(const std::string& why);

 private:
  enum class Kind : uint32_t { kReady, kStep, kSum, kLogits };
  struct Header {
    Kind kind;
    uint32_t bytes;   // behind it
    uint64_t number;  // of the message, of all kinds
  };

  explicit NodeLinks(const NodeOptions& options);
  bool is_head() const { return rank_ == 0; }
  int num_nodes() const { return static_cast<int>(shares_.size()); }
  Header next(Kind kind, size_t bytes) { return {kind, static_cast<uint32_t>(bytes), ++num_messages_}; }
  // Returns false when the head is done; throws NodeLost.
  bool wait(std::optional<std::chrono::seconds> patience);
  void must_wait();
  void check(const Header& got, const Header& expected, int rank);

  std::vector<Share> shares_;
  int rank_;
  Room room_;
  GroupId group_;
  uint64_t num_messages_{0};
  std::vector<float> floats_;    // what others have sent, by rank, or what is sent in pieces
  std::vector<Header> headers_;  // received, by rank
  Wire wire_;
  Watch watch_;  // last, because its thread uses the other members
};

}  // namespace nibble::nodes
