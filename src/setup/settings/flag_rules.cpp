#include "setup/settings/flag_rules.h"

#include <string>
#include <string_view>

#include "core/errors/error.h"

namespace nibble {
namespace {

using S = Settings;

// Functions for FlagRule::is_given: whether the user gave a flag.
template <auto member>
bool is_set(const Settings& settings) {
  return (settings.*member).has_value();
}
template <auto member>
bool is_on(const Settings& settings) {
  return settings.*member;
}
bool has_prompt_activations(const Settings& settings) {
  return settings.prompt_activations.value_or("bf16") != "bf16";
}
bool has_no_graphs(const Settings& settings) { return !settings.graphs; }
bool names_several_gpus(const Settings& settings) { return settings.tensor_parallel_size.value_or(1) > 1; }
bool splits_over_gpus(const Settings& settings) { return settings.tensor_split && !settings.nodes; }

// Functions for FlagRule::holds: whether the condition that a flag needs is met.
bool on_gpu(const FlagFacts& facts) { return facts.backend.device.has_value(); }
bool with_activations(const FlagFacts& facts) { return facts.backend.making.takes_expert_activations; }
bool with_nodes(const FlagFacts& facts) { return facts.settings.nodes.has_value(); }
bool without_nodes(const FlagFacts& facts) { return !facts.settings.nodes; }
bool with_gpus_or_nodes(const FlagFacts& facts) {
  return facts.settings.nodes.has_value() || facts.cuda.num_ranks() > 1;
}
bool with_one_gpu_each(const FlagFacts& facts) {
  return facts.cuda.gpus.size() <= 1 && !names_several_gpus(facts.settings);
}
bool with_shared_model(const FlagFacts& facts) { return facts.backend.nodes.has_value(); }
bool without_draft_model(const FlagFacts& facts) {
  return facts.speculation.draft_head.empty() && facts.speculation.draft_model.empty();
}
bool with_rank_and_head(const FlagFacts& facts) {
  return facts.settings.node_rank.has_value() && facts.settings.head.has_value();
}

struct FlagRule {
  std::string_view flag;
  bool (*is_given)(const Settings&);
  bool (*holds)(const FlagFacts&);
  // Rest of the error message, after the flag. {value} is the flag's value, {backend} the backend's name.
  std::string_view reason;
};

constexpr std::string_view kNoGpu{" is only for GPUs, and the backend is {backend}"};

constexpr FlagRule kRules[]{
    {"--experts-activations", &is_set<&S::experts_activations>, &with_activations,
     " {value}: not supported by the backend {backend}"},

    {"--shared-budget", &is_set<&S::shared_budget>, &on_gpu, kNoGpu},
    {"--multiprocessors", &is_set<&S::multiprocessors>, &on_gpu, kNoGpu},
    {"--gpu-memory-utilization", &is_set<&S::gpu_memory_utilization>, &on_gpu, kNoGpu},
    {"--prompt-activations", &has_prompt_activations, &on_gpu, kNoGpu},
    {"--no-graphs", &has_no_graphs, &on_gpu, kNoGpu},
    {"--tensor-parallel-size", &names_several_gpus, &on_gpu, kNoGpu},
    {"--gpus", &is_set<&S::gpus>, &on_gpu, kNoGpu},
    {"--nccl", &is_set<&S::nccl>, &on_gpu, kNoGpu},
    {"--tensor-split", &splits_over_gpus, &on_gpu, kNoGpu},

    {"--nccl", &is_set<&S::nccl>, &with_gpus_or_nodes, " needs --tensor-parallel-size, --gpus or --nodes"},
    {"--expert-parallel", &is_on<&S::expert_parallel>, &with_gpus_or_nodes,
     " needs --nodes, or several GPUs (--tensor-parallel-size)"},
    {"--data-parallel-attention", &is_on<&S::data_parallel_attention>, &with_gpus_or_nodes,
     " needs several GPUs (--tensor-parallel-size)"},
    {"--data-parallel-attention", &is_on<&S::data_parallel_attention>, &without_nodes,
     " is not supported with --nodes, only with several GPUs of one machine (--tensor-parallel-size)"},

    {"--node-rank", &is_set<&S::node_rank>, &with_nodes, " needs --nodes N"},
    {"--head", &is_set<&S::head>, &with_nodes, " needs --nodes N"},
    {"--secret-file", &is_set<&S::secret_file>, &with_nodes, " needs --nodes N"},
    {"--nodes", &is_set<&S::nodes>, &with_shared_model,
     " {value}: the backend {backend} runs on one machine only; use --backend cpu or cuda"},
    {"--nodes", &is_set<&S::nodes>, &with_one_gpu_each,
     " {value}: only one GPU per machine is supported; --gpus N selects it"},
    {"--nodes", &is_set<&S::nodes>, &without_draft_model,
     " {value}: draft heads and draft models are not supported; use --speculate auto"},
    {"--nodes", &is_set<&S::nodes>, &with_rank_and_head,
     " {value}: each node needs --node-rank R, and --head ADDRESS:PORT, the address on which node 0 listens"},
};

// Returns a flag's value as text; empty for a flag that only turns a setting off.
std::string value_of_flag(const Settings& settings, std::string_view name) {
  for (const Setting& setting : setting_table())
    if (flag(setting) == name) return value_of(settings, setting);
  return "";
}

}  // namespace

void check_flag_rules(const FlagFacts& facts) {
  for (const FlagRule& rule : kRules) {
    if (!rule.is_given(facts.settings) || rule.holds(facts)) continue;
    throw InputError(
        "{}{}", rule.flag,
        fmt::format(fmt::runtime(rule.reason), fmt::arg("value", value_of_flag(facts.settings, rule.flag)),
                    fmt::arg("backend", facts.backend.name)));
  }
}

}  // namespace nibble
