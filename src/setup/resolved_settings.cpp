#include "setup/resolved_settings.h"

namespace nibble {

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
  return !setup.nodes &&
         setup.backend->making.takes_blocks(setup.own);  // shares of nodes can only be cut from elements
}

}  // namespace nibble
