#include "setup/resolve.h"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/take_until.h"
#include "nodes/interface.h"
#include "setup/nodes.h"
#include "setup/speculation.h"

namespace nibble {
namespace {

// Groups of dense layers named in a list. Experts are MXFP4 in every checkpoint, so "moe" changes nothing.
struct LayerGroups {
  bool qkv{false}, o{false}, lm_head{false};
};
LayerGroups read_groups(std::string_view flag, std::string_view list, bool takes_moe) {
  LayerGroups groups;
  while (!list.empty()) {
    const std::string_view name = take_until(list, ',');
    const bool all = name == "all";
    if (!all && name != "qkv" && name != "o" && name != "lm_head" && !(takes_moe && name == "moe"))
      throw InputError("{} '{}': expected {}qkv, o, lm_head, separated by commas, or all", flag, name,
                       takes_moe ? "moe, " : "");
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

cpu::ExpertActivations expert_activations(const Settings& settings, const BackendRow& backend) {
  if (!settings.experts_activations) return cpu::ExpertActivations::kDefault;
  if (!backend.takes_expert_activations)
    throw InputError("--experts-activations {}: not supported by the backend {}",
                     *settings.experts_activations, backend.name);
  return *settings.experts_activations == "int8" ? cpu::ExpertActivations::kInt8
                                                 : cpu::ExpertActivations::kFloat;
}

std::optional<cuda::BlockFormat> block_format(std::string_view name) {
  if (name == "mxfp8x2") return cuda::BlockFormat::kMxfp8x2;
  if (name == "mxfp8") return cuda::BlockFormat::kMxfp8;
  if (name == "mxfp4") return cuda::BlockFormat::kMxfp4;
  return std::nullopt;
}

// Parses a comma-separated list of whole numbers from `least` to `most`. `what`
// describes them in the error message.
std::vector<int> read_numbers(const char* flag, std::string_view list, int least, int most,
                              const char* what) {
  std::vector<int> numbers;
  for (std::string_view rest = list; !rest.empty() || numbers.empty();) {
    const std::string_view text = take_until(rest, ',');
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
      throw InputError("{} '{}': expected {}, separated by commas", flag, list, what);
    numbers.push_back(number);
  }
  return numbers;
}
std::vector<int> read_split(const std::string& split) {
  return read_numbers("--tensor-split", split, 1, 1000, "whole numbers from 1 to 1000");
}

// Reads which GPUs share the model, and the relative share of each.
void read_gpus(const Settings& settings, cuda::CudaOptions& options) {
  if (settings.gpus) options.gpus = read_numbers("--gpus", *settings.gpus, 0, 63, "GPU indices from 0");
  if (settings.nodes) {  // each node has one GPU; node_setup() reads the shares
    if (options.gpus.size() > 1 || settings.tensor_parallel_size.value_or(1) > 1)
      throw InputError("--nodes {}: only one GPU per machine is supported; --gpus N selects it",
                       *settings.nodes);
    return;
  }
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

// Returns the multi-node setup of this process; null without --nodes.
std::shared_ptr<NodeSetup> node_setup(const Settings& settings, const ResolvedSettings& setup) {
  if (!settings.nodes) {
    for (const auto& [flag, is_given] : {std::pair{"--node-rank", settings.node_rank.has_value()},
                                         std::pair{"--head", settings.head.has_value()},
                                         std::pair{"--secret-file", settings.secret_file.has_value()}})
      if (is_given) throw InputError("{} needs --nodes N", flag);
    if (settings.expert_parallel && setup.own.cuda.num_ranks() == 1)
      throw InputError("--expert-parallel needs --nodes, or several GPUs (--tensor-parallel-size)");
    if (settings.data_parallel_attention && setup.own.cuda.num_ranks() == 1)
      throw InputError("--data-parallel-attention needs several GPUs (--tensor-parallel-size)");
    return nullptr;
  }
  const int count = *settings.nodes;
  if (settings.data_parallel_attention)
    throw InputError(
        "--data-parallel-attention is not supported with --nodes, only with several GPUs of one machine "
        "(--tensor-parallel-size)");
  if (!setup.backend->rank_traits)
    throw InputError("--nodes {}: the backend {} runs on one machine only; use --backend cpu or cuda", count,
                     setup.backend->name);
  if (!setup.speculation.draft_head.empty() || !setup.speculation.draft_model.empty())
    throw InputError("--nodes {}: draft heads and draft models are not supported; use --speculate auto",
                     count);
  if (!settings.node_rank || !settings.head)
    throw InputError(
        "--nodes {}: each node needs --node-rank R, and --head ADDRESS:PORT, the address on which node 0 "
        "listens",
        count);
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

cuda::CudaOptions cuda_options(const Settings& settings, const BackendRow& backend) {
  for (const auto& [flag, is_given] :
       {std::pair{"--shared-budget", settings.shared_budget.has_value()},
        std::pair{"--multiprocessors", settings.multiprocessors.has_value()},
        std::pair{"--gpu-memory-utilization",
                  settings.gpu_memory_utilization != Settings{}.gpu_memory_utilization},
        std::pair{"--prompt-activations", settings.prompt_activations.value_or("bf16") != "bf16"},
        std::pair{"--no-graphs", settings.graphs == "off"},
        std::pair{"--tensor-parallel-size", settings.tensor_parallel_size.value_or(1) > 1},
        std::pair{"--gpus", settings.gpus.has_value()}, std::pair{"--nccl", settings.nccl.has_value()},
        std::pair{"--tensor-split", settings.tensor_split && !settings.nodes}})
    if (is_given && !backend.is_device)
      throw InputError("{} is only for GPUs, and the backend is {}", flag, backend.name);
  cuda::CudaOptions options;
  if (settings.shared_budget)
    options.shared_budget = std::stoi(*settings.shared_budget);  // cannot throw: the table lists the choices
  options.num_multiprocessors = settings.multiprocessors;
  options.may_compile = settings.jit == "on";
  options.has_graphs = settings.graphs == "on";
  options.prompt_activations = block_format(settings.prompt_activations.value_or("bf16"));
  read_gpus(settings, options);
  options.have_whole_experts = settings.expert_parallel;
  options.have_own_sequences = settings.data_parallel_attention;
  options.nccl = settings.nccl.value_or("");
  if (settings.nccl && !settings.nodes && options.num_ranks() == 1)
    throw InputError("--nccl needs --tensor-parallel-size, --gpus or --nodes");
  return options;
}

}  // namespace

ResolvedSettings resolve(const Settings& settings) {
  ResolvedSettings setup;
  setup.backend = settings.backend ? &find_backend(*settings.backend) : &best_backend();
  setup.options.dense = dense_formats(settings);
  setup.options.kv_format = settings.kv_dtype == "fp8" ? Format::kE4m3 : Format::kBf16;
  setup.options.draft_head_format = settings.draft_head_dtype == "bf16" ? Format::kBf16 : Format::kMxfp4;
  setup.own.cpu.isa = settings.isa.value_or("");
  setup.own.cpu.expert_activations = expert_activations(settings, *setup.backend);
  setup.own.cuda = cuda_options(settings, *setup.backend);
  if (setup.own.cuda.have_own_sequences) setup.options.num_kv_caches = setup.own.cuda.num_ranks();
  const BatchSizes sizes = setup.backend->batch_sizes({});
  setup.options.max_batch_tokens = settings.max_batch_tokens.value_or(sizes.max_batch_tokens);
  setup.requirements = read_requirements(settings.require.value_or(""));
  setup.context = settings.context;
  setup.max_sequences = settings.max_sequences.value_or(sizes.max_sequences);
  setup.device_memory_share = settings.gpu_memory_utilization;
  setup.shares_prefixes = settings.prefix_cache == "on";
  setup.speculation = read_speculation(settings);
  setup.nodes = node_setup(settings, setup);
  if (setup.nodes && setup.backend->is_device) share_among_nodes(*setup.nodes, setup.own.cuda);
  setup.places = resolve_places(settings);
  if (setup.backend->check) setup.backend->check(setup.options, setup.own);

  if (setup.backend->retune) setup.tuning = read_tuning(settings, machine_name());
  if (setup.tuning) {
    setup.options.num_threads = setup.tuning->num_threads;
    setup.own.cpu.tuning = setup.tuning->cpu;
  }
  if (settings.threads) set_threads(setup, *settings.threads);
  return setup;
}

void set_threads(ResolvedSettings& setup, int num_threads) {
  setup.threads = num_threads;
  setup.options.num_threads = num_threads;
}

ResolvedSettings unquantised(ResolvedSettings setup) {
  setup.options.dense = {};
  setup.options.kv_format = Format::kBf16;
  if (setup.own.cpu.expert_activations != cpu::ExpertActivations::kDefault)
    setup.own.cpu.expert_activations = cpu::ExpertActivations::kFloat;
  setup.own.cuda.prompt_activations.reset();
  return setup;
}

bool takes_blocks(const ResolvedSettings& setup) {
  return !setup.nodes && setup.backend->takes_blocks(setup.own);  // shares of nodes are cut from elements
}

}  // namespace nibble
