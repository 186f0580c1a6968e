#include "backend/cpu/forward.h"

#include <algorithm>
#include <string_view>

#include "backend/backend.h"
#include "backend/cpu/attention/attend.h"
#include "backend/cpu/dense/embed.h"
#include "backend/cpu/dense/project.h"
#include "backend/cpu/dense/qkv.h"
#include "backend/cpu/dense/unembed.h"
#include "backend/cpu/experts/experts.h"
#include "backend/cpu/experts/route.h"

namespace nibble::cpu {
namespace {

template <typename T, int rank>
View<T, rank> first(View<T, rank> view, ptrdiff_t count) {
  view.shape[0] = count;
  return view;
}

// Must be called before results of an operation are read: in a stopped step, some are undefined.
void give_up_if_stopped(const Machine& machine) {
  if (machine.is_stopped()) throw StepCut();
}

void end_operation(const Machine& machine, WorkClock& clock, Operation operation, std::string_view part) {
  give_up_if_stopped(machine);
  clock.lap(operation, part);
}

// Computes the logits of all outputs from the residual stream `x`, and passes them to args.take_logits().
void take_all_logits(const ForwardArgs& args, const View<float, 2>& x, const StepAdapters& adapted) {
  const PackedModel& packed = args.packed;
  const Weights& weights = *packed.weights;
  const Activations& a = args.activations;
  for (ptrdiff_t o = 0; o < std::ssize(args.outputs); o += kOutputRows) {
    const auto block = args.outputs.subspan(o, std::min<size_t>(kOutputRows, args.outputs.size() - o));
    const View<float, 2> logits = first(a.logits, std::ssize(block));
    View<float, 2> own = logits;  // columns of this rank's share of the vocabulary
    if (args.links) own.data += args.links->share().vocab.first;
    unembed({args.machine, x, block, weights.final_norm, weights.unembedding,
             packed.unembedding ? &*packed.unembedding : nullptr, weights.config.rms_eps, a.normed,
             a.normed_q8, own, adapted});
    give_up_if_stopped(args.machine);
    if (args.links) args.links->collect(logits);
    if (!args.links || args.links->share().rank == 0) args.take_logits(o, logits);
    end_operation(args.machine, args.clock, Operation::kUnembed, "unembed");
  }
}

}  // namespace

void forward(const ForwardArgs& args) {
  const auto& [machine, packed, rope, rows, outputs, kv_cache, a, _, clock, tap, links, adapters] = args;
  const Weights& weights = *packed.weights;
  const Config& config = weights.config;
  const float eps = config.rms_eps;
  const ptrdiff_t T = std::ssize(rows);
  const View<float, 2> x = first(a.x, T);
  const View<int, 2> chosen = first(a.chosen, T);
  // Attention and experts add to x, and ranks then all-reduce x. So only rank 0 keeps x, and other ranks
  // start from 0.
  const std::span<float> stream(x.data, static_cast<size_t>(T * config.hidden));
  const auto begin_half = [&, links = links] {
    if (links && !links->share().adds_once()) std::ranges::fill(stream, 0.0f);
  };
  const auto end_half = [&, links = links] {
    if (links) links->add_up(stream);
  };

  const StepAdapters adapted{rows, adapters, a.low_rank};
  embed({rows, weights.embedding, x});
  rotations({rope, rows, a.cosines, a.sines});
  end_operation(machine, clock, Operation::kEmbed, "embed");
  for (const LayerWeights& layer : weights.layers) {
    const ptrdiff_t n = &layer - weights.layers.data();
    const LayerKv& kv = kv_cache.layer(n);
    const PackedLayer* strips = packed.layers.empty() ? nullptr : &packed.layers[n];
    const LayerAdapters updates{adapted, static_cast<size_t>(n)};
    const auto window = layer.kind == LayerKind::kSliding ? std::optional(config.window) : std::nullopt;
    qkv({machine, x, rows, layer, strips && strips->qkv ? &*strips->qkv : nullptr, eps, a.cosines, a.sines,
         a.normed, a.normed_q8, a.q, kv, updates});  // normalises, projects, rotates, stores keys and values
    end_operation(machine, clock, Operation::kQkv, "qkv");
    attend({machine, a.q, rows, kv, layer.sinks, window, a.parts, a.attended});
    end_operation(machine, clock, Operation::kAttend, "attend");
    begin_half();
    project({machine, a.attended, layer.o, strips && strips->o ? &*strips->o : nullptr, a.attended_q8,
             layer.o_bias, x, updates});  // x += Wo attended + bo
    end_half();
    end_operation(machine, clock, Operation::kProject, "project");
    route({machine, x, layer, eps, a.router_logits, a.normed, chosen, a.chosen_weights,
           updates});  // norm, router, top K, softmax
    end_operation(machine, clock, Operation::kRoute, "route");
    begin_half();
    experts({machine, a.normed, chosen, a.chosen_weights, layer,
             strips && strips->experts ? &*strips->experts : nullptr, config.experts(), config.swiglu_limit,
             a.gated, a.normed_q8, a.gated_q8, a.down_panels, x});
    end_half();
    end_operation(machine, clock, Operation::kExpertsUp, "experts");
    if (tap) tap(static_cast<int>(n), x);
  }
  take_all_logits(args, x, adapted);
}

}  // namespace nibble::cpu
