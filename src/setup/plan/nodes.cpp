#include "setup/plan/nodes.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "setup/plan/experts.h"

namespace nibble {
namespace {

std::vector<Share> shares_here(const Config& whole, const NodeSetup& node, const std::string& source) {
  return shares_of(whole, node.parts, source, {"--nodes", node.split});
}

}  // namespace

nodes::Secret read_secret(const std::optional<std::string>& file) {
  if (file) {
    const std::string text = read_text_file(*file, 4096);
    return {text.substr(0, text.find_first_of("\r\n")), "--secret-file " + *file};
  }
  const char* variable = std::getenv("NIBBLE_SECRET");
  if (!variable)
    throw InputError(
        "--nodes needs a secret shared by all nodes: --secret-file FILE, or the variable NIBBLE_SECRET");
  return {variable, "NIBBLE_SECRET"};
}

Config config_here(const Config& whole, const ResolvedSettings& setup) {
  if (!setup.nodes || setup.backend->device) return whole;
  return config_of(whole,
                   shares_here(whole, *setup.nodes, "the model")[static_cast<size_t>(setup.nodes->rank)]);
}

nodes::NodeOptions node_options(const Model& model, const ResolvedSettings& setup) {
  using nodes::Fact;
  const NodeSetup& node = *setup.nodes;
  const DenseFormats& dense = setup.options.dense;
  nodes::Facts facts;
  const auto set = [&](Fact fact, std::string text) { at(facts, fact) = std::move(text); };
  set(Fact::kProgram, node.program);
  set(Fact::kModel, nodes::identity_of(model.config));
  set(Fact::kWeights, model.weights ? nodes::identity_of(*model.weights) : "synthetic");
  set(Fact::kFormats,
      fmt::format("experts {}, qkv {}, o {}, lm_head {}, KV cache {}", name(experts_format(model, setup)),
                  name(dense.qkv), name(dense.attention_output), name(dense.unembedding),
                  name(setup.options.kv_format)));
  const RankTraits traits = setup.backend->nodes->traits(setup.own);
  set(Fact::kKernels, traits.kernels);
  set(Fact::kDeviceLinks, traits.device_links);
  set(Fact::kSplit, fmt::format("parts {}{}", fmt::join(node.parts, ","),
                                node.split == ExpertSplit::kWhole ? ", whole experts" : ""));
  return {.head = node.head,
          .secret = node.secret,
          .facts = std::move(facts),
          .shares = shares_here(model.config, node, model.source.name),
          .rank = node.rank,
          .on_lost = node.on_lost};
}

}  // namespace nibble
