// How a follower joins the head, on each of its two connections: both prove that they have the secret, compare their facts, and the head
// tells what room there is.
//
//   follower -> head   hello: a magic number, which connection, a nonce
//   head -> follower   challenge: the magic number, a nonce
//   follower -> head   its proof of hello, challenge and what follows: rank, facts
//   head -> follower   its answer, its proof of all of that, its facts, the room, the group's id
//
// All messages have a fixed size. A head that gets a wrong proof answers nothing but that.
#pragma once

#include <functional>

#include "backend/rank_links.h"
#include "nodes/asio.h"
#include "nodes/batch_code.h"
#include "nodes/facts.h"
#include "nodes/secret.h"

namespace nibble::nodes {

// Coroutines take what they are given by value, because they begin when they are waited for; the socket is the caller's to close.

// The control connection has heartbeats and last words, the data connection steps, sums and logits.
enum class Channel : uint32_t { kControl, kData };

enum class Answer : uint32_t { kWelcome, kWrongSecret, kDiffers, kNoSuchRank, kTaken };

struct Joining {
  int rank;
  Channel channel;
};

// The head's side. `judge` answers a follower that has the secret and the same facts. Returns who has joined; throws InputError that says why
// nobody did.
struct HeadSide {
  Secret secret;
  Facts facts;
  Room room;
  GroupId group;
  std::function<Answer(const Joining&)> judge;
};
asio::awaitable<Joining> receive_follower(tcp::socket& socket, HeadSide head);

// What the head tells those who may join.
struct Invitation {
  Room room;
  GroupId group;
};
// The follower's side. Throws InputError that says why it may not join. `address` is the head's, for messages.
asio::awaitable<Invitation> join_head(tcp::socket& socket, Secret secret, Facts facts, Joining joining,
                                      std::string address);

}  // namespace nibble::nodes
