#include "nodes/head_backend.h"

#include <fmt/format.h>

#include <utility>

namespace nibble::nodes {
namespace {

// Runs a part of a step. If it throws, ends the whole group: the other nodes wait in the middle of the step.
template <typename Part>
auto run_or_lose(NodeLinks& links, const Part& part) {
  try {
    return part();
  } catch (const NodeLost&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why = fmt::format("node {} failed: {}", links.share().rank, error.what());
    links.lose(why);
    links.check_alive();
    throw NodeLost(why);
  }
}

class HeadBackend final : public Backend {
 public:
  HeadBackend(std::unique_ptr<Backend> own, std::shared_ptr<NodeLinks> links, const Config& whole)
      : own_(std::move(own)), links_(std::move(links)), whole_(whole) {
    links_->meet();
  }
  ~HeadBackend() override { links_->end_all(); }

  std::string_view name() const override { return own_->name(); }
  const Config& config() const override { return whole_; }
  std::vector<KernelChoice> kernels() const override { return own_->kernels(); }
  StepResult step(const Batch& batch) override {
    if (batch.runs.empty()) return {};
    return run_or_lose(*links_, [&] {
      links_->send_step(encode(batch));
      return own_->step(batch);
    });
  }

 private:
  std::unique_ptr<Backend> own_;
  std::shared_ptr<NodeLinks> links_;
  Config whole_;
};

}  // namespace

std::unique_ptr<Backend> lead_backend(std::unique_ptr<Backend> own, std::shared_ptr<NodeLinks> links,
                                      const Config& whole) {
  return std::make_unique<HeadBackend>(std::move(own), std::move(links), whole);
}

void follow(Backend& own, NodeLinks& links, const Config& whole) {
  links.meet();
  while (const auto message = links.receive_step(most_bytes(links.room(), whole)))
    run_or_lose(links, [&] {
      const ReceivedBatch batch(*message, links.room(), whole);
      return own.step(batch.view());
    });
}

}  // namespace nibble::nodes
