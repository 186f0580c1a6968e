// How a follower joins the head, once on each of its two connections. Both sides prove that they have the
// secret and compare their facts; then the head sends the limits of a batch.
//
//   follower -> head   hello: magic number, which connection, nonce
//   head -> follower   challenge: magic number, nonce
//   follower -> head   request: proof over hello, challenge and the rest of this message; rank, facts
//   head -> follower   reply: proof over all messages; answer, facts, limits of a batch, group id
//
// All messages have a fixed size. After a wrong proof the head replies kWrongSecret and zeros.
#pragma once

#include <functional>

#include "backend/rank_links.h"
#include "nodes/asio.h"
#include "nodes/batch_code.h"
#include "nodes/facts.h"
#include "nodes/secret.h"

namespace nibble::nodes {

// Coroutines take their arguments by value, because they start only when awaited. The caller owns the socket
// and closes it.

// The control connection carries heartbeats and the reason for the end; the data connection carries steps,
// partial sums and logits.
enum class Channel : uint32_t { kControl, kData };

enum class Answer : uint32_t { kWelcome, kWrongSecret, kDiffers, kNoSuchRank, kTaken };

struct Joining {
  int rank;
  Channel channel;
};

// The head's side. `judge` decides about a follower that has the secret and equal facts. Returns the follower
// that joined; throws InputError with the reason if it was refused.
struct HeadSide {
  Secret secret;
  Facts facts;
  Room room;
  GroupId group;
  std::function<Answer(const Joining&)> judge;
};
asio::awaitable<Joining> receive_follower(tcp::socket& socket, HeadSide head);

// What a follower gets from the head when it joins.
struct Invitation {
  Room room;
  GroupId group;
};
// The follower's side. Throws InputError with the reason if it is refused. `address` is the head's, for
// messages.
asio::awaitable<Invitation> join_head(tcp::socket& socket, Secret secret, Facts facts, Joining joining,
                                      std::string address);

}  // namespace nibble::nodes
