// Handshake of each connection: head and follower prove that they know the secret, and compare facts.
//   follower -> head   hello: magic number, channel, nonce
//   head -> follower   challenge: magic number, nonce
//   follower -> head   request: proof over hello, challenge, rank and facts; then rank and facts
//   head -> follower   reply: proof over all messages; then answer, facts, limits of a batch, group id
// All messages have a fixed size. If the follower's proof is wrong, the reply is kWrongSecret and zeros.
#pragma once

#include <functional>

#include "backend/rank_links.h"
#include "nodes/asio.h"
#include "nodes/batch_code.h"
#include "nodes/facts.h"
#include "nodes/secret.h"

namespace nibble::nodes {

// Coroutines take arguments by value, because they still run when the call has returned. The caller owns and
// closes the socket.

// kControl carries heartbeats and the reason for the end; kData carries steps, partial sums and logits.
enum class Channel : uint32_t { kControl, kData };

enum class Answer : uint32_t { kWelcome, kWrongSecret, kDiffers, kNoSuchRank, kTaken };

struct Joining {
  int rank;
  Channel channel;
};

// The head's side. `judge` decides about followers whose secret and facts are right. receive_follower()
// returns the accepted follower, or throws an InputError with the reason for the refusal.
struct HeadSide {
  Secret secret;
  Facts facts;
  Room room;
  GroupId group;
  std::function<Answer(const Joining&)> judge;
};
asio::awaitable<Joining> receive_follower(tcp::socket& socket, HeadSide head);

struct Invitation {  // what the head sends to a follower that joins
  Room room;
  GroupId group;
};
// Joins as a follower. Throws an InputError with the reason if the head at `address` refuses.
asio::awaitable<Invitation> join_head(tcp::socket& socket, Secret secret, Facts facts, Joining joining,
                                      std::string address);

}  // namespace nibble::nodes
