#include "backend/cuda/forward.h"

#include <algorithm>

namespace nibble::cuda {
namespace {

// The rows of the images that a step of T tokens multiplies; 0 where its activations lie row by row.
int image_rows_of(const Plan& plan, const Workspace& work, int T) {
  return plan.has_images(T) ? work.image_rows : 0;
}

// The residual stream in front of a layer: x, and the experts' outputs of the layer before it, unless they were added already.
ResidualInput stream_in(const Config& config, const Workspace& work, bool with_experts) {
  ResidualInput r;
  r.x = work.x;
  r.hidden = config.hidden;
  r.num_experts = config.experts_per_token;
  if (with_experts) r.experts = work.experts_out;
  return r;
}

// The residual stream behind attention, in the one or two parts that project() leaves.
ResidualInput stream_in_parts(const Config& config, const Plan& plan, const Workspace& work, int num_tokens) {
  ResidualInput r;
  r.x = work.project_parts;
  if (plan.leaves_parts(num_tokens))
    r.x_rest = work.project_parts + static_cast<size_t>(num_tokens) * static_cast<size_t>(config.hidden);
  r.hidden = config.hidden;
  return r;
}

// Attention of a layer. Long runs of one sequence's rows are attended to in tiles. The positions of every other row are split over CTAs,
// whose partial results take scratch, which limits the rows of a launch.
void attend(const Config& config, const DeviceLayer& layer, const Plan& plan, const Workspace& work,
            const StepShape& shape, Stream stream, AttendArgs args) {
  const bool is_sliding = layer.kind == LayerKind::kSliding;
  if (is_sliding) args.window = config.window;
  if (shape.num_tiles > 0)
    plan.attend_tiles(stream, shape.num_tiles,
                      {args.input, args.num_heads, args.num_kv_heads, args.pages, args.window, args.sinks,
                       args.out, args.image_rows});
  args.max_chunks = shape.full_chunks;
  if (is_sliding)
    args.max_chunks =
        std::min(args.max_chunks, chunks_for((config.window + kPagePositions - 2) / kPagePositions + 1));
  args.partials = work.attend_partials;
  args.tickets = work.attend_tickets;
  const int rows_per_launch = rows_of_attend(config.num_kv_heads, args.max_chunks);
  for (args.first_row = 0; args.first_row < shape.num_single_rows; args.first_row += rows_per_launch)
    plan.attend_rows(stream, std::min(rows_per_launch, shape.num_single_rows - args.first_row), args);
}

// The mixture of experts of a layer: leaves the experts' outputs, which the next layer's reader adds to x.
void experts(const Model& model, size_t index, const NormInput& norm, const Plan& plan, const Workspace& work,
             int T, Stream stream) {
  const Config& config = model.config;
  const DeviceLayer& layer = model.weights.layers[index];
  const int K = config.experts_per_token;
  const UpWeights up{layer.up, layer.up_bias, config.hidden, config.intermediate, config.swiglu_limit};
  const Groups groups{plan.group_size(T), work.group_count,  work.group_expert,   work.group_pairs_count,
                      work.group_pairs,   work.pair_weights, work.group_image_row};
  const int image_rows = image_rows_of(plan, work, T), image_pairs = image_rows ? work.image_pairs : 0;
  const RoutingMailbox routing{work.routing_sums,
                               work.routing_experts,
                               work.pair_weights,
                               work.step,
                               static_cast<uint32_t>(model.weights.layers.size()),
                               static_cast<uint32_t>(index)};
  if (plan.routes_with_experts(T)) {
    plan.route_and_experts_up(stream,
                              {norm, layer.router, layer.router_bias, K, work.x, routing, up, work.gated});
  } else {
    if (plan.has_norms(T))
      plan.rms_norm(stream, {norm, T, work.x, work.normed, work.normed_blocks, image_rows});
    plan.route(stream, {norm, layer.router, layer.router_bias, T, K, work.x, work.normed, work.router_logits,
                        work.chosen, work.rank, work.route_ticket, groups, image_rows, work.router_sums});
    plan.experts_up(stream, {work.normed, groups, T, K, plan.max_groups(T), up, work.gated,
                             work.normed_blocks, work.gated_blocks, work.gathered, image_rows, image_pairs});
  }
  plan.experts_down(stream,
                    {work.gated, groups, routing, T, plan.max_groups(T), config.hidden, config.intermediate,
                     layer.down, layer.down_bias, work.experts_out, work.gated_blocks, image_pairs});
}

}  // namespace

void run_layers(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                Stream stream, const Tap& tap) {
  const Config& config = model.config;
  const int T = shape.num_tokens, Nq = config.num_heads, Nkv = config.num_kv_heads;
  const StepInput in = parts_of(work.input, shape).step();
  const RopeInput rope{work.rope_frequencies, work.rope_concentration};
  const int image_rows = image_rows_of(plan, work, T);
  plan.embed(stream, T, {in, model.weights.embedding, config.hidden, work.x, work.step, work.results});
  for (size_t l = 0; l < model.weights.layers.size(); ++l) {
    const DeviceLayer& layer = model.weights.layers[l];
    const LayerPages pages = model.kv.pages(l);
    const ResidualInput left = stream_in(config, work, /*with_experts=*/l > 0);
    const NormInput norm{left, layer.attention_norm, config.rms_eps};
    // Where norms are computed once, that adds up the residual stream as well, in place.
    const ResidualInput x = plan.has_norms(T) ? stream_in(config, work, /*with_experts=*/false) : left;
    if (plan.has_norms(T)) plan.rms_norm(stream, {norm, T, work.x, work.normed, {}, image_rows});
    plan.qkv(stream, {norm, work.normed, layer.qkv, layer.qkv_bias, T, work.qkv_parts, image_rows});
    if (!shape.writes_kv)
      plan.append(stream, {in, work.qkv_parts, plan.leaves_parts(T), T, Nq, Nkv, rope, pages,
                           shape.num_tiles > 0 ? work.attended : nullptr, image_rows});
    attend(config, layer, plan, work, shape, stream,
           {in, work.qkv_parts, plan.leaves_parts(T), T, Nq, Nkv, rope, pages, /*window=*/0, layer.sinks,
            shape.writes_kv,
            /*first_row=*/0, /*max_chunks=*/0, nullptr, nullptr, work.attended, image_rows});
    plan.project(stream, {work.attended, Nq * config.head_dim, x, layer.o, layer.o_bias, T,
                          work.project_parts, image_rows});
    experts(model, l, {stream_in_parts(config, plan, work, T), layer.mlp_norm, config.rms_eps}, plan, work, T,
            stream);
    if (tap) tap(l, stream_in(config, work, /*with_experts=*/true));
  }
}

void run_unembed(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                 int first, int count, Stream stream) {
  const InputParts in = parts_of(work.input, shape);
  const ResidualInput left = stream_in(model.config, work, /*with_experts=*/true);
  const NormInput norm{left, model.weights.final_norm, model.config.rms_eps};
  const int* rows = in.output_rows + first;
  if (plan.unembeds_normed(count))  // of these rows alone
    plan.rms_norm(stream, {norm, count, nullptr, work.normed, {}, image_rows_of(plan, work, count), rows});
  plan.unembed(stream, {norm, rows, count, model.weights.unembedding, work.logits, work.normed,
                        image_rows_of(plan, work, count)});
}

void run_sample(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                int first, int count, Stream stream) {
  const InputParts in = parts_of(work.input, shape);
  plan.sample(stream, count,
              {in.sample + first, in.rows, work.logits, model.config.vocab, shape.are_greedy, work.best,
               work.sample_tickets, work.results + first});
}

}  // namespace nibble::cuda
