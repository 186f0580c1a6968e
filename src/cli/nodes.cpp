#include "cli/nodes.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "cli/command.h"
#include "cli/version.h"
#include "core/console/output.h"
#include "setup/plan/experts.h"
#include "setup/start/load.h"

namespace nibble::cli {
namespace {

// Time that the head has to send the error to clients before it ends. Equals ServerOptions::last_words.
constexpr std::chrono::seconds kLastWords{2};

[[noreturn]] void end_process(const std::string& what, std::chrono::seconds delay) {
  print_to(stderr, "nibble: {}\n", what);
  std::this_thread::sleep_for(delay);
  std::fflush(stdout);
  std::_Exit(kNodeLost);  // without waiting for other threads, which may be blocked
}

}  // namespace

std::optional<int> follow_head(ResolvedSettings& setup, const std::string& model) {
  if (!setup.nodes) return {};
  NodeSetup& node = *setup.nodes;
  const Build build = this_build();
  node.program = fmt::format("{} {}", build.version, build.commit);
  const std::chrono::seconds delay = node.rank == 0 ? kLastWords : std::chrono::seconds(0);
  node.on_lost = [delay](const std::string& what) { end_process(what, delay); };
  if (node.rank == 0) return {};
  follow(open_model_for(model, setup), setup);
  return kDone;
}

}  // namespace nibble::cli
