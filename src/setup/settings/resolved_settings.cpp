#include "setup/settings/resolved_settings.h"

#include <fmt/format.h>

namespace nibble {

void set_threads(ResolvedSettings& setup, int num_threads) {
  setup.threads = num_threads;
  setup.options.num_threads = num_threads;
}

std::string tuned_model(const ResolvedSettings& setup, const Config& config) {
  const auto& [qkv, o, unembedding] = setup.options.dense;
  const cpu::CpuOptions& cpu = setup.own.cpu;
  std::string text = fmt::format(
      "hidden {}, intermediate {}, {} heads of {}, {} KV heads, {} of {} experts, vocabulary {}; qkv {}, o "
      "{}, "
      "lm_head {}, KV {}",
      config.hidden, config.intermediate, config.num_heads, config.head_dim, config.num_kv_heads,
      config.experts_per_token, config.num_experts, config.vocab, name(qkv), name(o), name(unembedding),
      name(setup.options.kv_format));
  if (cpu.expert_activations != cpu::ExpertActivations::kDefault)
    text += cpu.expert_activations == cpu::ExpertActivations::kInt8 ? ", int8 activations"
                                                                    : ", float activations";
  if (!cpu.isa.empty()) text += ", " + cpu.isa;
  const cuda::CudaOptions& cuda = setup.own.cuda;
  if (cuda.shared_budget) text += fmt::format(", {} KB of shared memory", *cuda.shared_budget);
  if (cuda.num_multiprocessors) text += fmt::format(", {} multiprocessors", *cuda.num_multiprocessors);
  return text;
}

const Tuning* tuning_of(const ResolvedSettings& setup, const Config& config) {
  const auto found = setup.tunings.find(tuned_model(setup, config));
  return found == setup.tunings.end() ? nullptr : &found->second;
}

int num_threads_of(const ResolvedSettings& setup, const Config& config) {
  const Tuning* tuning = tuning_of(setup, config);
  return tuning && !tuning->gpu_steps && !setup.threads ? tuning->num_threads : setup.options.num_threads;
}

OwnOptions own_options(const ResolvedSettings& setup, const Config& config) {
  OwnOptions own = setup.own;
  if (const Tuning* tuning = tuning_of(setup, config)) {
    own.cpu.tuning = tuning->cpu;
    own.cuda.tuned_steps = tuning->gpu_steps.value_or(std::vector<TunedSteps>{});
  }
  return own;
}

ResolvedSettings unquantised(ResolvedSettings setup) {
  // If adapters change experts, run them in BF16, which keeps the changes (docs/decisions/0028). Without
  // --experts, only the reference runs experts that are MXFP4 in the file and that adapters change.
  const bool keeps_format = setup.experts && !setup.adapters.empty() &&
                            setup.backend->making.runs_experts(Format::kBf16, setup.own);
  setup.experts = keeps_format ? std::optional(Format::kBf16) : std::nullopt;
  setup.options.dense = {};
  setup.options.kv_format = Format::kBf16;
  if (setup.own.cpu.expert_activations != cpu::ExpertActivations::kDefault)
    setup.own.cpu.expert_activations = cpu::ExpertActivations::kFloat;
  setup.own.cuda.prompt_activations.reset();
  return setup;
}

bool takes_blocks(const ResolvedSettings& setup) {
  return !setup.nodes &&
         setup.backend->making.takes_blocks(setup.own);  // a node's share can't be cut from GGUF's blocks
}

}  // namespace nibble
