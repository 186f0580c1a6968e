#include "server/service/condition.h"

#include <fmt/format.h>

#include "server/service/engine_gate.h"

namespace nibble::server {

Condition condition_of(const Service& service) {
  if (!service.gate) return {};
  const EngineState state = service.gate->engine().state();
  if (!state.lost.empty()) return {Stall::kForever, {{"status", "lost"}, {"reason", state.lost}}};
  const StepLimit limit{service.options.step_timeout, service.model->num_host_bytes};
  const Stall stall = stall_of(state.progress, limit);
  if (stall == Stall::kNone) return {};
  return {stall,
          {{"status", "stalled"},
           {"reason", fmt::format("requests are waiting, but no step has finished for {:.0f} s; the limit is "
                                  "{:.0f} s (--step-timeout)",
                                  state.progress.seconds, limit.seconds(state.progress))},
           {"seconds_without_step", state.progress.seconds}}};
}

}  // namespace nibble::server
