// Runs the nodes of a group as threads of a test. The nodes join over the loopback device.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "core/program/log.h"
#include "model/shares/share_weights.h"
#include "nodes/head_backend.h"

namespace nibble::nodes {

// Starts the log before nodes' threads log. Refusals are not logged: tests read the followers' messages.
inline const bool kLogIsStarted = [] {
  log::start(spdlog::level::err, log::Format::kText);
  return true;
}();

inline constexpr const char* kTestSecret{"a secret of some bytes"};

inline Facts test_facts() { return {"0.1.0", "shape", "weights", "formats", "kernels", "links", "split"}; }

// Returns a free port of the loopback device, below 32768. Higher ports may be given to any process by the
// kernel (ip_local_port_range), so another process could take such a port before the head binds it.
inline tcp::endpoint free_address() {
  asio::io_context io;
  std::random_device random;
  for (;;) {
    const auto port = static_cast<uint16_t>(std::uniform_int_distribution<int>(15000, 32767)(random));
    const tcp::endpoint address(asio::ip::make_address("127.0.0.1"), port);
    tcp::acceptor acceptor(io, address.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    error_code error;
    acceptor.bind(address, error);
    if (!error) return address;
    if (error != asio::error::address_in_use) throw boost::system::system_error(error);
  }
}

// Returns two shares, one per node.
inline std::vector<Share> shares_of_two() {
  Config config = *named_config("gpt-oss-20b");
  return shares_of(config, std::vector<int>{1, 1}, "20b", {"--nodes"});
}

inline NodeOptions node_options(const tcp::endpoint& head, const std::vector<Share>& shares, int rank) {
  return {.head = head,
          .secret = Secret(kTestSecret, "the test"),
          .facts = test_facts(),
          .shares = shares,
          .rank = rank,
          .on_lost = [](const std::string&) {},
          .patience = std::chrono::seconds(20)};
}

// Makes the backend of a rank. Its links are in the options.
using MakeRank =
    std::function<std::unique_ptr<Backend>(std::shared_ptr<const Weights> whole, const BackendOptions&)>;

// Threads of followers, which run the head's batches until the head ends.
class Followers {
 public:
  Followers(std::shared_ptr<const Weights> whole, const std::vector<NodeOptions>& nodes,
            const BackendOptions& options, const MakeRank& make_rank) {
    for (const NodeOptions& node : nodes)
      threads_.emplace_back([=] {
        const std::shared_ptr<NodeLinks> links = NodeLinks::join(node);
        BackendOptions mine = options;
        mine.links = links;
        try {
          const auto backend = make_rank(whole, mine);
          follow(*backend, *links, whole->config);
        } catch (const NodeLost&) {  // expected: the head gets the same error
        }
      });
  }
  ~Followers() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<std::thread> threads_;
};

// The head node's backend together with its followers. Tests use it like any other backend.
class SharedBackend final : public Backend {
 public:
  SharedBackend(std::shared_ptr<const Weights> whole, const std::vector<int>& parts, BackendOptions options,
                const cpu::CpuOptions& own, ExpertSplit split = ExpertSplit::kUnits)
      : SharedBackend(
            std::move(whole), parts, std::move(options),
            [own](const auto& all, const BackendOptions& mine) {
              return cpu::make(share_of(*all, mine.links->share()), mine, own);
            },
            split) {}
  // `group`: the id by which the ranks' devices find each other.
  SharedBackend(std::shared_ptr<const Weights> whole, const std::vector<int>& parts, BackendOptions options,
                const MakeRank& make_rank, ExpertSplit split = ExpertSplit::kUnits,
                const GroupId& group = {}) {
    const tcp::endpoint head = free_address();
    const std::vector<Share> shares = shares_of(whole->config, parts, whole->source, {"--nodes", split});
    std::vector<NodeOptions> nodes;
    for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank)
      nodes.push_back(node_options(head, shares, rank));
    nodes[0].group = group;
    followers_ =
        std::make_unique<Followers>(whole, std::vector(nodes.begin() + 1, nodes.end()), options, make_rank);
    const auto links =
        NodeLinks::lead(nodes[0], {options.num_pages, options.max_table_pages, options.max_batch_tokens});
    options.links = links;
    backend_ = lead_backend(make_rank(whole, options), links, whole->config);
  }
  std::string_view name() const override { return backend_->name(); }
  const Config& config() const override { return backend_->config(); }
  std::vector<KernelChoice> kernels() const override { return backend_->kernels(); }
  StepResult step(const Batch& batch) override { return backend_->step(batch); }

 private:
  std::unique_ptr<Followers> followers_;
  std::unique_ptr<Backend> backend_;  // declared last, so destroyed first: its destructor ends the followers
};

}  // namespace nibble::nodes
