#include "nodes/handshake.h"

#include <algorithm>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "nodes/bytes.h"

namespace nibble::nodes {
namespace {

constexpr uint64_t kMagic{0x0003'656c'6262'696e};  // "nibble" and the protocol version
constexpr uint32_t kNoRank{0xffff};  // received ranks are clamped to this number, which is above all ranks
constexpr std::string_view kFollowerProof{"nibble follower"}, kHeadProof{"nibble head"};
constexpr size_t kDigestBytes{sizeof(Digest)}, kHelloBytes{8 + 4 + kDigestBytes},
    kChallengeBytes{8 + kDigestBytes}, kRequestBytes{4 + kNumFacts * kFactBytes},
    kReplyBytes{4 + kNumFacts * kFactBytes + 3 * 4 + sizeof(GroupId)};

void put(Writer& writer, const Facts& facts) {
  for (const std::string& fact : facts) writer.text(fact, kFactBytes);
}
Facts facts_of(Reader& reader) {
  Facts facts;
  for (std::string& fact : facts) fact = reader.text(kFactBytes);
  return facts;
}
Digest digest_of(Reader& reader) {
  Digest digest;
  std::ranges::copy(reader.raw(digest.size()), digest.begin());
  return digest;
}
// Cuts the facts to kFactBytes, as the encoding does, so that both sides compare the same text.
Facts cut(const Facts& facts) {
  Writer writer;
  put(writer, facts);
  const Bytes bytes = writer.take();
  Reader reader(bytes);
  return facts_of(reader);
}

// `who`: name of the peer in error messages.
asio::awaitable<Bytes> read_bytes(tcp::socket& socket, size_t count, std::string who) {
  Bytes bytes(count);
  error_code error;
  co_await asio::async_read(socket, asio::buffer(bytes), told(error));
  if (error) throw InputError("{} closed the connection, or did not send its message in time", who);
  co_return bytes;
}
asio::awaitable<void> write_bytes(tcp::socket& socket, Bytes bytes, std::string who) {
  error_code error;
  co_await asio::async_write(socket, asio::buffer(bytes), told(error));
  if (error) throw InputError("{} closed the connection", who);
}

template <typename... Parts>
Bytes joined(const Parts&... parts) {
  Writer writer;
  (writer.raw(parts), ...);
  return writer.take();
}

std::string refusal(Answer answer, int rank) {
  switch (answer) {
    case Answer::kNoSuchRank:
      return fmt::format("--node-rank {} is out of range", rank);
    case Answer::kTaken:
      return fmt::format("node {} has already joined: --node-rank must be different on each node", rank);
    default:
      return "the secret is wrong";
  }
}

}  // namespace

asio::awaitable<Joining> receive_follower(tcp::socket& socket, HeadSide head) {
  const Bytes hello = co_await read_bytes(socket, kHelloBytes, "it");
  Reader greeting(hello);
  if (greeting.number<uint64_t>() != kMagic)
    throw InputError("it is not a nibble with this protocol version");
  const auto channel = greeting.number<uint32_t>();
  if (channel > static_cast<uint32_t>(Channel::kData))
    throw InputError("it requested an unknown kind of connection");

  Writer writer;
  writer.number(kMagic);
  writer.raw(random_nonce());
  const Bytes challenge = writer.take();
  co_await write_bytes(socket, challenge, "it");

  const Bytes signed_request = co_await read_bytes(socket, kDigestBytes + kRequestBytes, "it");
  Reader reader(signed_request);
  const Digest proof = digest_of(reader);
  const std::span request = std::span(signed_request).subspan(kDigestBytes);
  const bool has_secret = head.secret.is_proof(proof, kFollowerProof, joined(hello, challenge, request));
  const Joining joining{static_cast<int>(std::min(reader.number<uint32_t>(), kNoRank)),
                        static_cast<Channel>(channel)};
  const Facts theirs = facts_of(reader), ours = cut(head.facts);
  const std::optional<std::string> differs = difference(ours, joining.rank, theirs);
  const Answer answer = !has_secret ? Answer::kWrongSecret : differs ? Answer::kDiffers : head.judge(joining);

  writer.number(static_cast<uint32_t>(answer));
  put(writer, has_secret ? head.facts : Facts{});
  for (const int number : {head.room.num_pages, head.room.max_table_pages, head.room.max_batch_tokens})
    writer.number(static_cast<uint32_t>(has_secret ? number : 0));
  writer.raw(has_secret ? head.group : GroupId{});
  const Bytes reply = writer.take();
  const Digest own_proof =
      has_secret ? head.secret.prove(kHeadProof, joined(hello, challenge, signed_request, reply)) : Digest{};
  co_await write_bytes(socket, joined(own_proof, reply), "it");
  if (answer == Answer::kDiffers) throw InputError("{}", *differs);
  if (answer != Answer::kWelcome) throw InputError("{}", refusal(answer, joining.rank));
  co_return joining;
}

asio::awaitable<Invitation> join_head(tcp::socket& socket, Secret secret, Facts facts, Joining joining,
                                      std::string address) {
  const std::string who = fmt::format("--head {}: the head", address);
  Writer writer;
  writer.number(kMagic);
  writer.number(static_cast<uint32_t>(joining.channel));
  writer.raw(random_nonce());
  const Bytes hello = writer.take();
  co_await write_bytes(socket, hello, who);

  const Bytes challenge = co_await read_bytes(socket, kChallengeBytes, who);
  if (Reader(challenge).number<uint64_t>() != kMagic)
    throw InputError("--head {}: the program at this address is not a nibble with this protocol version",
                     address);

  writer.number(static_cast<uint32_t>(joining.rank));
  put(writer, facts);
  const Bytes request = writer.take();
  const Bytes signed_request =
      joined(secret.prove(kFollowerProof, joined(hello, challenge, request)), request);
  co_await write_bytes(socket, signed_request, who);

  const Bytes signed_reply = co_await read_bytes(socket, kDigestBytes + kReplyBytes, who);
  Reader reader(signed_reply);
  const Digest proof = digest_of(reader);
  const std::span reply = std::span(signed_reply).subspan(kDigestBytes);
  const auto answer = static_cast<Answer>(reader.number<uint32_t>());
  if (answer == Answer::kWrongSecret)
    throw InputError("--head {}: the head has a different secret than this node", address);
  if (!secret.is_proof(proof, kHeadProof, joined(hello, challenge, signed_request, reply)))
    throw InputError("--head {}: the program at this address does not have the secret", address);
  const Facts theirs = facts_of(reader);
  if (const auto differs = difference(theirs, joining.rank, cut(facts)))
    throw InputError("--head {}: {}", address, *differs);
  if (answer != Answer::kWelcome) throw InputError("--head {}: {}", address, refusal(answer, joining.rank));
  const auto number = [&] { return static_cast<int>(reader.number<uint32_t>()); };
  const Room room{number(), number(), number()};
  constexpr int kMostPages{1 << 24}, kMostRows{1 << 16};
  if (room.num_pages < 1 || room.num_pages > kMostPages || room.max_table_pages < 0 ||
      room.max_table_pages > kMostPages || room.max_batch_tokens < 1 || room.max_batch_tokens > kMostRows)
    throw InputError("--head {}: the head sent invalid limits: {} pages, {} in tables, {} rows", address,
                     room.num_pages, room.max_table_pages, room.max_batch_tokens);
  GroupId group;
  std::ranges::copy(reader.raw(group.size()), group.begin());
  co_return Invitation{room, group};
}

}  // namespace nibble::nodes
