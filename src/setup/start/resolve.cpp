#include "setup/start/resolve.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors/error.h"
#include "core/text/number_list.h"
#include "core/text/take_until.h"
#include "nodes/interface.h"
#include "setup/plan/adapters.h"
#include "setup/plan/nodes.h"
#include "setup/settings/flag_rules.h"
#include "setup/settings/speculation.h"

namespace nibble {
namespace {

// Groups of layers that a list names.
struct LayerGroups {
  bool moe{false}, qkv{false}, o{false}, lm_head{false};
};
LayerGroups read_groups(std::string_view flag, std::string_view list, bool takes_moe) {
  LayerGroups groups;
  while (!list.empty()) {
    const std::string_view name = take_until(list, ',');
    const bool all = name == "all";
    if (!all && name != "qkv" && name != "o" && name != "lm_head" && !(takes_moe && name == "moe"))
      throw InputError("{} '{}': expected {}qkv, o, lm_head, separated by commas, or all", flag, name,
                       takes_moe ? "moe, " : "");
    groups.moe |= (all && takes_moe) || name == "moe";
    groups.qkv |= all || name == "qkv";
    groups.o |= all || name == "o";
    groups.lm_head |= all || name == "lm_head";
  }
  return groups;
}

DenseFormats dense_formats(const Settings& settings) {
  const LayerGroups mxfp4 = read_groups("--mxfp4-layers", settings.mxfp4_layers.value_or(""), true);
  const LayerGroups fp8 = read_groups("--fp8-layers", settings.fp8_layers.value_or(""), false);
  const auto choose = [](const char* name, bool is_mxfp4, bool is_fp8) {
    if (is_mxfp4 && is_fp8)
      throw InputError("--mxfp4-layers and --fp8-layers both name {}: choose one format", name);
    return is_mxfp4 ? Format::kMxfp4 : is_fp8 ? Format::kE4m3 : Format::kBf16;
  };
  return {choose("qkv", mxfp4.qkv, fp8.qkv), choose("o", mxfp4.o, fp8.o),
          choose("lm_head", mxfp4.lm_head, fp8.lm_head)};
}

// Returns the format of --experts, or MXFP4 if --mxfp4-layers names the experts; nullopt if neither is given.
std::optional<Format> expert_format(const Settings& settings) {
  const bool moe = read_groups("--mxfp4-layers", settings.mxfp4_layers.value_or(""), true).moe;
  const std::string name = settings.experts.value_or("");
  if (moe && !name.empty() && name != "mxfp4")
    throw InputError("--experts {} and --mxfp4-layers {} both name the experts: choose one format", name,
                     *settings.mxfp4_layers);
  if (moe || name == "mxfp4") return Format::kMxfp4;
  if (name == "fp8") return Format::kE4m3;
  if (name == "q8_0") return Format::kQ8_0;
  return name == "bf16" ? std::optional(Format::kBf16) : std::nullopt;
}

cpu::ExpertActivations expert_activations(const Settings& settings) {
  if (!settings.experts_activations) return cpu::ExpertActivations::kDefault;
  return *settings.experts_activations == "int8" ? cpu::ExpertActivations::kInt8
                                                 : cpu::ExpertActivations::kFloat;
}

std::optional<cuda::BlockFormat> block_format(std::string_view name) {
  if (name == "mxfp8x2") return cuda::BlockFormat::kMxfp8x2;
  if (name == "mxfp8") return cuda::BlockFormat::kMxfp8;
  if (name == "mxfp4") return cuda::BlockFormat::kMxfp4;
  return std::nullopt;
}

std::vector<int> read_split(const std::string& split) {
  return read_numbers(split, "--tensor-split", 1, 1000);
}

// Reads which GPUs share the model, and their relative shares.
void read_gpus(const Settings& settings, cuda::CudaOptions& options) {
  if (settings.gpus) options.gpus = read_numbers(*settings.gpus, "--gpus", 0, 63, "GPU indices from 0");
  if (settings.nodes) return;  // Each node has one GPU; node_setup() reads the shares.
  if (settings.tensor_split)
    options.parts = read_split(*settings.tensor_split);
  else if (settings.tensor_parallel_size || settings.gpus)
    options.parts.assign(
        static_cast<size_t>(settings.tensor_parallel_size.value_or(static_cast<int>(options.gpus.size()))),
        1);
  const auto check = [&](const char* flag, const std::string& value, size_t count) {
    if (count != options.parts.size())
      throw InputError("{} {}: {} GPU{}, but {} {}", flag, value, count, count == 1 ? "" : "s",
                       settings.tensor_split ? "--tensor-split has parts for" : "--tensor-parallel-size says",
                       options.parts.size());
  };
  if (settings.gpus) check("--gpus", *settings.gpus, options.gpus.size());
  if (settings.tensor_parallel_size)
    check("--tensor-parallel-size", fmt::to_string(*settings.tensor_parallel_size),
          static_cast<size_t>(*settings.tensor_parallel_size));
}

// Makes this process's GPU one rank of the --nodes group.
void share_among_nodes(const NodeSetup& node, cuda::CudaOptions& options) {
  options.parts = node.parts;
  options.node_rank = node.rank;
  options.interface = nodes::interface_to(node.head).value_or("");
}

std::shared_ptr<NodeSetup> node_setup(const Settings& settings) {  // null without --nodes
  if (!settings.nodes) return nullptr;
  const int count = *settings.nodes;
  if (*settings.node_rank >= count)
    throw InputError("--node-rank {}: {} nodes are numbered from 0 to {}", *settings.node_rank, count,
                     count - 1);
  std::vector<int> parts(static_cast<size_t>(count), 1);
  if (settings.tensor_split) parts = read_split(*settings.tensor_split);
  if (std::ssize(parts) != count)
    throw InputError("--tensor-split {}: {} parts for {} nodes", *settings.tensor_split, parts.size(), count);
  const ExpertSplit split = settings.expert_parallel ? ExpertSplit::kWhole : ExpertSplit::kUnits;
  return std::make_shared<NodeSetup>(NodeSetup{*settings.node_rank, std::move(parts), split,
                                               nodes::read_address(*settings.head),
                                               read_secret(settings.secret_file)});
}

cuda::CudaOptions cuda_options(const Settings& settings) {
  cuda::CudaOptions options;
  if (settings.shared_budget)
    options.shared_budget = std::stoi(*settings.shared_budget);  // cannot throw: the table lists the choices
  options.num_multiprocessors = settings.multiprocessors;
  options.may_compile = settings.jit;
  options.has_graphs = settings.graphs;
  options.prompt_activations = block_format(settings.prompt_activations.value_or("bf16"));
  read_gpus(settings, options);
  options.have_whole_experts = settings.expert_parallel;
  options.have_own_sequences = settings.data_parallel_attention;
  options.nccl = settings.nccl.value_or("");
  return options;
}

}  // namespace

ResolvedSettings resolve(const Settings& settings) {
  ResolvedSettings setup;
  setup.backend = settings.backend ? &find_backend(*settings.backend) : &best_backend();
  setup.options.dense = dense_formats(settings);
  setup.experts = expert_format(settings);
  setup.adapters = read_adapters(settings.lora);
  setup.options.kv_format = settings.kv_dtype == "fp8" ? Format::kE4m3 : Format::kBf16;
  setup.options.draft_head_format = settings.draft_head_dtype == "bf16" ? Format::kBf16 : Format::kMxfp4;
  setup.own.cpu.isa = settings.isa.value_or("");
  setup.own.cpu.expert_activations = expert_activations(settings);
  setup.own.cuda = cuda_options(settings);
  if (setup.own.cuda.have_own_sequences) setup.options.num_kv_caches = setup.own.cuda.num_ranks();
  const BatchSizes sizes = setup.backend->making.batch_sizes({});
  setup.options.max_batch_tokens = settings.max_batch_tokens.value_or(sizes.max_batch_tokens);
  setup.requirements = read_requirements(settings.require.value_or(""));
  setup.context = settings.context;
  setup.max_sequences = settings.max_sequences.value_or(sizes.max_sequences);
  setup.itl_target = settings.itl_target.value_or(0) / 1000;
  setup.max_shared_rows = sizes.max_shared_rows;
  if (!settings.itl_target) setup.max_rows_with_answers = sizes.max_rows_with_answers;
  setup.device_memory_share = settings.gpu_memory_utilization;
  setup.shares_prefixes = settings.prefix_cache;
  setup.speculation = read_speculation(settings);
  check_flag_rules({settings, *setup.backend, setup.own.cuda, setup.speculation});
  setup.nodes = node_setup(settings);
  if (setup.nodes && setup.backend->device) share_among_nodes(*setup.nodes, setup.own.cuda);
  setup.places = resolve_places(settings);
  setup.backend->making.check(setup.options, setup.own);

  const BackendRow& backend = *setup.backend;
  if (backend.tuning) setup.tunings = read_tunings(settings, {machine_name(), settings.build});
  // With --prompt-activations, ignore the settings for the GPU: nibble tune did not try the kernels that this
  // flag selects.
  if (backend.device && backend.making.why_not().empty() && !setup.own.cuda.prompt_activations)
    setup.tunings = read_tunings(settings, {machine_name(backend.device->facts()), settings.build});
  if (settings.threads) set_threads(setup, *settings.threads);
  return setup;
}

}  // namespace nibble
