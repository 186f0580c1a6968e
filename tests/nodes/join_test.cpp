// Tests which nodes may join a group, the messages to nodes that may not, and how a group ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <future>

#include "core/system/clock.h"
#include "model/checkpoint/synthetic.h"
#include "nodes/handshake.h"
#include "nodes/interface.h"
#include "tests/error_of.h"
#include "tests/model/small_model.h"
#include "tests/nodes/group.h"
#include "tests/wait_until.h"

namespace nibble::nodes {
namespace {

using testing::HasSubstr;

constexpr Room kSmallRoom{.num_pages = 7, .max_batch_tokens = 8};
constexpr GroupId kTestGroup{1, 2, 3, 200};

TEST(Secret, ProofIsHmacSha256OfPurposeAndMessage) {
  const Secret secret(kTestSecret, "the test");
  const std::string message = "message";
  const std::span bytes(reinterpret_cast<const uint8_t*>(message.data()), message.size());
  const Digest proof = secret.prove("purpose", bytes);
  std::string digits;
  for (const uint8_t byte : proof) digits += fmt::format("{:02x}", byte);
  // Computed by Python's hmac.new(b'a secret of some bytes', b'purpose\0message', hashlib.sha256).
  EXPECT_EQ(digits, "1610e21872e97e546056d32b2c50834b98061b5a463e64a07b0959a2d5a00540");
  EXPECT_TRUE(secret.is_proof(proof, "purpose", bytes));
  EXPECT_FALSE(secret.is_proof(proof, "another", bytes));
  EXPECT_FALSE(Secret("another secret of bytes", "the test").is_proof(proof, "purpose", bytes));
  EXPECT_THAT(error_of([] { Secret("short", "--secret-file x"); }),
              HasSubstr("--secret-file x: a secret needs at least 16 bytes"));
}

TEST(HeadAddress, IsOneAddressAndAPort) {
  EXPECT_EQ(read_address("10.0.0.1:7000"), tcp::endpoint(asio::ip::make_address("10.0.0.1"), 7000));
  EXPECT_EQ(read_address("localhost:1"), tcp::endpoint(asio::ip::make_address("127.0.0.1"), 1));
  EXPECT_EQ(read_address("[::1]:65535"), tcp::endpoint(asio::ip::make_address("::1"), 65535));
  for (const char* text : {"", "7000", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:7x",
                           "spark:7000", "::1:7000", "[10.0.0.1]:7"})
    EXPECT_THAT(error_of([&] { read_address(text); }), HasSubstr("expected an address")) << text;
  for (const char* text : {"0.0.0.0:7000", "[::]:7000"})
    EXPECT_THAT(error_of([&] { read_address(text); }), HasSubstr("expected one address")) << text;
}

TEST(Interface, IsTheOneThatLeadsToAnAddress) {
  EXPECT_EQ(interface_to(read_address("127.0.0.1:7000")), "lo");
}

TEST(Identity, DistinguishesModels) {
  const Config config = small_config();
  const Weights first = make_synthetic(config, "first", 1);
  EXPECT_EQ(identity_of(first), identity_of(make_synthetic(config, "the same", 1)));
  EXPECT_NE(identity_of(first), identity_of(make_synthetic(config, "another", 2)));
  Config other = config;
  other.rms_eps *= 2;
  EXPECT_EQ(identity_of(config), identity_of(small_config()));
  EXPECT_NE(identity_of(config), identity_of(other));
}

// A head that waits for one follower, and the refusals that followers get.
class Join : public testing::Test {
 protected:
  const tcp::endpoint head_ = free_address();
  const std::vector<Share> shares_ = shares_of_two();
  std::promise<std::string> lost_;

  NodeOptions options(int rank) const { return node_options(head_, shares_, rank); }
  std::future<std::shared_ptr<NodeLinks>> lead() {
    NodeOptions own = options(0);
    own.on_lost = [this](const std::string& what) { lost_.set_value(what); };
    own.group = kTestGroup;
    return std::async(std::launch::async, [own] { return NodeLinks::lead(own, kSmallRoom); });
  }
  static std::string refusal_of(const NodeOptions& follower) {
    return error_of([&] { NodeLinks::join(follower); });
  }
};

TEST_F(Join, IsRefusedToWhoDiffersAndTheHeadGoesOnWaiting) {
  auto head = lead();
  NodeOptions wrong = options(1);
  wrong.secret = Secret("another secret of bytes", "the test");
  EXPECT_THAT(refusal_of(wrong), HasSubstr("the head has a different secret than this node"));
  for (size_t fact = 0; fact < kNumFacts; ++fact) {
    wrong = options(1);
    wrong.facts[fact] = "mine";
    EXPECT_THAT(refusal_of(wrong), HasSubstr(fmt::format("node 1 has {} than node 0: mine; node 0 has {}",
                                                         kFactNames[fact], test_facts()[fact])));
  }
  wrong = options(1);
  wrong.rank = 2;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("--node-rank 2 is out of range"));
  const auto follower = NodeLinks::join(options(1));
  EXPECT_EQ(follower->room(), kSmallRoom);
  const auto links = head.get();
  EXPECT_EQ(follower->group(), kTestGroup);
  EXPECT_THAT(refusal_of(options(1)), HasSubstr("node 1 has already joined"));
  links->end_all();
}

tcp::socket connected(asio::io_context& io, const tcp::endpoint& head) {
  tcp::socket socket(io);
  test::wait_until([&] {
    error_code error;
    socket.connect(head, error);
    if (error) socket.close();
    return !error;
  });
  return socket;
}

// Strangers send nothing, random bytes, or an incomplete greeting.
TEST_F(Join, IsNotHinderedByStrangers) {
  auto head = lead();
  asio::io_context io;
  tcp::socket silent = connected(io, head_), noisy = connected(io, head_), broken = connected(io, head_);
  const std::string noise(4096, 'G'), half = "nibble\x01";
  error_code error;
  asio::write(noisy, asio::buffer(noise), error);
  asio::write(broken, asio::buffer(half), error);
  broken.close();
  const auto follower = NodeLinks::join(options(1));
  head.get()->end_all();
}

TEST_F(Join, IsRefusedByAFollowerWhoseHeadDoesNotHaveTheSecret) {
  asio::io_context io;
  tcp::acceptor acceptor(io, head_);
  // The impostor repeats the greeting's magic number as a challenge, and welcomes any node.
  const auto impostor = std::async(std::launch::async, [&] {
    tcp::socket socket = acceptor.accept();
    std::vector<uint8_t> hello(44), request(32 + 4 + kNumFacts * kFactBytes),
        reply(request.size() + 12 + sizeof(GroupId));
    error_code error;
    asio::read(socket, asio::buffer(hello), error);
    std::vector<uint8_t> challenge(hello.begin(), hello.begin() + 40);
    asio::write(socket, asio::buffer(challenge), error);
    asio::read(socket, asio::buffer(request), error);
    asio::write(socket, asio::buffer(reply), error);
  });
  EXPECT_THAT(refusal_of(options(1)), HasSubstr("does not have the secret"));
}

TEST_F(Join, EndsWithTheNamesOfThoseWhoDoNotCome) {
  NodeOptions own = options(0);
  own.patience = std::chrono::seconds(0);
  try {
    NodeLinks::lead(own, kSmallRoom);
    ADD_FAILURE() << "nobody was missing";
  } catch (const NodeLost& lost) {
    EXPECT_THAT(lost.what(), HasSubstr("node 1 did not join"));
  }
  NodeOptions follower = options(1);
  follower.patience = std::chrono::seconds(0);
  EXPECT_THROW(NodeLinks::join(follower), NodeLost);
}

std::string loss_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const NodeLost& lost) {
    return lost.what();
  }
  return "nothing was lost";
}

TEST_F(Join, ANodeThatLeavesIsLostAtOnceAndNodesThatWaitForItGetAnError) {
  auto head = lead();
  auto follower = NodeLinks::join(options(1));
  const auto links = head.get();
  auto waiting = std::async(std::launch::async, [&] {
    std::vector<float> terms(100);
    return loss_of([&] { links->add_up(terms); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Stopwatch since;
  follower.reset();
  EXPECT_THAT(waiting.get(), HasSubstr("closed its connection"));
  EXPECT_LT(since.seconds(), 2.5);  // the head did not wait for the silence timeout
  EXPECT_THAT(lost_.get_future().get(), HasSubstr("node 1 at 127.0.0.1:"));
  std::vector<float> terms(1);
  EXPECT_THAT(loss_of([&] { links->add_up(terms); }), HasSubstr("node 1 at 127.0.0.1:"));
  EXPECT_THAT(loss_of([&] { links->check_alive(); }), HasSubstr("node 1 at 127.0.0.1:"));
}

TEST_F(Join, ANodeThatEndsWithAnErrorSendsItToTheOthers) {
  auto head = lead();
  auto follower = NodeLinks::join(options(1));
  const auto links = head.get();
  links->check_alive();
  follower->give_up("it has no memory left");
  EXPECT_THAT(loss_of([&] { links->meet(); }), HasSubstr("it has no memory left"));
}

TEST_F(Join, AHeadThatIsDoneEndsWhoWaitsForASteps) {
  auto head = lead();
  auto follower = NodeLinks::join(options(1));
  const auto links = head.get();
  auto waiting = std::async(std::launch::async, [&] { return follower->receive_step(1000).has_value(); });
  links->end_all();
  EXPECT_FALSE(waiting.get());
  EXPECT_EQ(loss_of([&] { follower->check_alive(); }), "nothing was lost");
}

// A node joins and then sends nothing, as if its cable was unplugged.
TEST_F(Join, ASilentNodeIsLostAfterThreeSeconds) {
  auto head = lead();
  asio::io_context io;
  tcp::socket control = connected(io, head_), data = connected(io, head_);
  for (const auto& [socket, channel] : {std::pair{&control, Channel::kControl}, {&data, Channel::kData}}) {
    const NodeOptions own = options(1);
    auto joined = asio::co_spawn(io, join_head(*socket, own.secret, own.facts, {1, channel}, "the head"),
                                 asio::use_future);
    io.restart();
    io.run();
    EXPECT_EQ(joined.get().room, kSmallRoom);
  }
  const auto links = head.get();
  const Stopwatch since;
  EXPECT_THAT(loss_of([&] { links->meet(); }), HasSubstr("has been silent for 3 s"));
  EXPECT_GT(since.seconds(), 2.5);
  EXPECT_LT(since.seconds(), 6);
}

TEST_F(Join, AMessageThatIsNotTheExpectedOneEndsTheGroup) {
  auto head = lead();
  auto follower = NodeLinks::join(options(1));
  const auto links = head.get();
  auto other = std::async(std::launch::async, [&] {
    std::vector<float> terms(3);
    return loss_of([&] { follower->add_up(terms); });
  });
  EXPECT_THAT(loss_of([&] { links->meet(); }), HasSubstr("node 1 sent message 1 (kind 2, 12 bytes)"));
  EXPECT_NE(other.get(), "nothing was lost");
}

TEST_F(Join, AStepThatIsTooLongEndsTheGroup) {
  auto head = lead();
  auto follower = NodeLinks::join(options(1));
  const auto links = head.get();
  auto other = std::async(std::launch::async, [&] { return loss_of([&] { follower->receive_step(10); }); });
  links->send_step(Bytes(11));
  EXPECT_THAT(other.get(), HasSubstr("11 bytes); expected message 1 (kind 1, 10 bytes)"));
}

}  // namespace
}  // namespace nibble::nodes
