#include "reference/forward.h"

#include "reference/attend.h"
#include "reference/embed.h"
#include "reference/experts.h"
#include "reference/linear.h"
#include "reference/qkv.h"
#include "reference/route.h"
#include "reference/unembed.h"

namespace nibble::reference {

void forward(const ForwardArgs& args) {
  const auto& [weights, rope, rows, outputs, kv_cache, logits, trace, pool, rounding, margins, observe,
               adapters] = args;
  const Config& config = weights.config;
  const float eps = config.rms_eps;
  Activations a(config, std::ssize(rows));

  int n = -1;  // index of the layer
  const auto done = [&, &on_done = observe](Operation operation) {
    if (on_done) on_done(n, operation, a);
  };

  embed({rows, weights.embedding, a.x});
  done(Operation::kEmbed);
  int stage = 0;
  if (trace) trace(stage++, a.x);
  for (const LayerWeights& layer : weights.layers) {
    const LayerKv& kv = kv_cache.layer(static_cast<size_t>(++n));
    const auto window = layer.kind == LayerKind::kSliding ? std::optional(config.window) : std::nullopt;
    const LayerAdapters adapted{rows, adapters, static_cast<size_t>(n)};
    // normalise, project, rotate, append
    qkv({a.x, rows, layer, eps, rope, a.q, kv, pool, rounding, adapted});
    done(Operation::kQkv);
    attend({a.q, rows, kv, layer.sinks, window, a.attended, pool});
    done(Operation::kAttend);
    project({a.attended, layer.o, layer.o_bias, a.x, pool, rounding,
             adapted.updates(&LayerUpdates::o)});  // x += Wo attended + bo
    done(Operation::kProject);
    route({a.x, layer, eps, a.normed, a.chosen, a.chosen_weights, margins,
           adapted.updates(&LayerUpdates::router)});  // norm, gate, top K, softmax
    done(Operation::kRoute);
    experts({a.normed, a.chosen, a.chosen_weights, layer, config.num_experts, config.swiglu_limit, a.x, pool,
             rounding});
    done(Operation::kExpertsUp);
    if (trace) trace(stage++, a.x);
  }
  unembed({a.x, outputs, weights.final_norm, weights.unembedding, eps, a.normed, logits, pool, rounding,
           unembedding_updates(rows, outputs, adapters)});
  if (trace) trace(stage, a.normed);
}

}  // namespace nibble::reference
