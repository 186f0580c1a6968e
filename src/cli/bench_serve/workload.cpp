#include "cli/bench_serve/workload.h"

#include <cmath>

#include "core/numbers/random.h"

namespace nibble::cli {

uint64_t seed_of(uint64_t seed, Draw draw) { return random_bits(seed, static_cast<uint64_t>(draw)); }

RequestShape shape_of(const Workload& workload, uint64_t index) {
  if (workload.trace.empty()) {
    const auto draw = [&](Draw what) { return random_unit(seed_of(workload.seed, what), index); };
    return {.num_prompt_tokens = workload.prompt_tokens.draw(draw(Draw::kPromptLength)),
            .num_output_tokens = workload.output_tokens.draw(draw(Draw::kOutputLength))};
  }
  const TraceRequest& request = workload.trace[index % workload.trace.size()];
  RequestShape shape{request.num_prompt_tokens, request.num_output_tokens};
  // The blocks of each pass over the trace are new, so no earlier pass has put them into the prefix cache.
  const uint64_t pass = random_bits(seed_of(workload.seed, Draw::kBlock), index / workload.trace.size());
  for (const uint64_t id : request.blocks) shape.blocks.push_back(random_bits(pass, id));
  return shape;
}

std::vector<double> poisson_arrivals(double rate, int count, uint64_t seed) {
  std::vector<double> times;
  double now = 0;
  for (int i = 0; i < count; ++i) {
    times.push_back(now);
    now -= std::log1p(-random_unit(seed_of(seed, Draw::kArrival), static_cast<uint64_t>(i))) / rate;
  }
  return times;
}

}  // namespace nibble::cli
