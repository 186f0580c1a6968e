#include "backend/cuda/forward.h"

#include <algorithm>

#include "backend/cuda/attention/keep_drafts.h"

namespace nibble::cuda {
namespace {

// The rows of the images that a step of T tokens multiplies; 0 where its activations lie row by row.
int image_rows_of(const Plan& plan, const Workspace& work, int T) {
  return plan.has_images(T) ? work.image_rows : 0;
}

// The residual stream in front of a layer: x, and the experts' outputs of the layer before it, unless they were added already, as where
// ranks have added up theirs.
ResidualInput stream_in(const Config& config, const Workspace& work, bool with_experts) {
  ResidualInput r;
  r.x = work.x;
  r.hidden = config.hidden;
  r.num_experts = config.experts_per_token;
  if (with_experts) r.experts = work.experts_out;
  return r;
}

// Ranks add up what project() leaves in the place of x, unless kernels compute norms themselves: those that read x there write it as well. Then
// the sum is in the place of what project() left; if that is of a rank's own rows, which have other places, where the experts' outputs were.
float* sum_behind_attention(const Model& model, const Plan& plan, const Workspace& work, int num_tokens) {
  if (plan.has_norms(num_tokens)) return work.x;
  return model.has_own_sequences ? work.experts_out : work.project_parts;
}

// Says whether the sum over ranks behind a half leaves the norm that comes next, which no launch of its own then computes. Block-scaled
// formats of it are made from the whole x. Behind the experts no sum does where a rank has rows of its own, which it reads alone.
bool sums_leave_norms(const Model& model, const Plan& plan, const Workspace& work, int num_tokens) {
  return model.has_own_sums && plan.has_norms(num_tokens) && !work.normed_blocks.codes;
}

// The residual stream behind attention, in the one or two parts that project() leaves; in one, where ranks have added up theirs.
ResidualInput stream_in_parts(const Model& model, const Plan& plan, const Workspace& work, int num_tokens) {
  const int hidden = model.config.hidden;
  ResidualInput r;
  r.x = model.is_shared ? sum_behind_attention(model, plan, work, num_tokens) : work.project_parts;
  if (!model.is_shared && plan.leaves_parts(num_tokens))
    r.x_rest = work.project_parts + static_cast<size_t>(num_tokens) * static_cast<size_t>(hidden);
  r.hidden = hidden;
  return r;
}

// The chunks of the longest row that attend_rows() sees in a layer.
int chunks_of(const Config& config, const DeviceLayer& layer, const StepShape& shape) {
  if (layer.kind != LayerKind::kSliding) return shape.full_chunks;
  return std::min(shape.full_chunks, chunks_for((config.window + kPagePositions - 2) / kPagePositions + 1));
}

// Attention of a layer. Long runs of one sequence's rows are attended to in tiles. The positions of every other row are split over CTAs,
// whose partial results take scratch, which limits the rows of a launch.
void attend(const Config& config, const DeviceLayer& layer, const Plan& plan, const Workspace& work,
            const StepShape& shape, Stream stream, AttendArgs args) {
  if (layer.kind == LayerKind::kSliding) args.window = config.window;
  if (shape.num_tiles > 0)
    plan.attend_tiles(stream, shape.num_tiles,
                      {args.input, args.num_heads, args.num_kv_heads, args.pages, args.window, args.sinks,
                       args.out, args.image_rows, work.tile_totals});
  args.partials = work.attend_partials;
  args.tickets = work.attend_tickets;
  args.mailbox = work.attend_mailbox;
  args.mailbox_partials = work.mailbox_partials;
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
  Groups groups{plan.group_size(T), work.group_count,  work.group_expert,   work.group_pairs_count,
                work.group_pairs,   work.pair_weights, work.group_image_row};
  const int image_rows = image_rows_of(plan, work, T), image_pairs = image_rows ? work.image_pairs : 0;
  RoutingMailbox routing;
  if (are_matched(T, K, groups.size, image_rows > 0))
    routing = {work.routing_sums,
               work.routing_experts,
               work.pair_weights,
               work.step,
               static_cast<uint32_t>(model.weights.layers.size()),
               static_cast<uint32_t>(index)};
  if (plan.routes_with_experts(T)) {
    plan.route_and_experts_up(stream, {norm, layer.router, layer.router_bias, T, K, config.experts(), work.x,
                                       routing, up, work.gated});
  } else {
    const bool wants_norm = plan.has_norms(T) && !sums_leave_norms(model, plan, work, T),
               norms_in_router = plan.norms_in_router(T);
    if (wants_norm && !norms_in_router)
      plan.rms_norm(stream, {norm, T, work.x, work.normed, work.normed_blocks, image_rows});
    RouteArgs route{config.hidden,     layer.router, layer.router_bias,  T,           K,
                    config.experts(),  work.normed,  work.router_logits, work.chosen, work.rank,
                    work.route_ticket, groups,       image_rows};
    if (wants_norm && norms_in_router) {
      route.norm = norm;
      if (norm.residual.x != work.x) route.x = work.x;  // where ranks have added it up, it is there
    }
    plan.route(stream, route);
    plan.experts_up(stream, {work.normed, groups, T, K, plan.max_groups(T), up, work.gated,
                             work.normed_blocks, work.gated_blocks, work.gathered, image_rows, image_pairs,
                             work.router_logits, routing, config.num_experts, config.experts()});
  }
  plan.experts_down(
      stream, {work.gated, groups, routing, config.experts(), config.num_experts, T, K, plan.max_groups(T),
               config.hidden, config.intermediate, layer.down, layer.down_bias, work.experts_out,
               work.gated_blocks, image_pairs, work.down_turns});
}

// The last pages of each row of a layer, as many as make 16 MB: attention's CTAs ask for 17 MB at once on a Hopper, whose L2 has 50. On other
// chips nobody has measured it.
PagesAhead pages_ahead(const Config& config, const Target& target, const StepInput& in,
                       const LayerPages& pages, int num_rows) {
  constexpr int kBytes{16 << 20};
  if (pages.is_sliding || target.family != Family::kSm90) return {};
  const int element = pages.format == KvFormat::kBf16 ? 2 : 1,
            page_bytes = 2 * config.num_kv_heads * kPagePositions * config.head_dim * element;
  return {in, pages, page_bytes, kBytes / page_bytes / num_rows};
}

// Attention of a layer: leaves the residual stream in parts, or what this rank adds to it.
void attention(const Model& model, size_t index, const Plan& plan, const Workspace& work,
               const StepShape& shape, Stream stream) {
  const Config& config = model.config;
  const int T = shape.num_attention_rows(), Nq = config.num_heads, Nkv = config.num_kv_heads;
  const InputParts parts = parts_of(work.input, shape);
  const StepInput in = parts.step();
  const RopeInput rope{work.rope_frequencies, work.rope_concentration};
  const int image_rows = image_rows_of(plan, work, T);
  const DeviceLayer& layer = model.weights.layers[index];
  const LayerPages pages = model.kv.pages(index);
  const ResidualInput left = stream_in(config, work, /*with_experts=*/index > 0 && !model.is_shared);
  const NormInput norm{left, layer.attention_norm, config.rms_eps};
  // Where norms are computed once, that adds up the residual stream as well, in place.
  ResidualInput x = plan.has_norms(T) ? stream_in(config, work, /*with_experts=*/false) : left;
  if (model.is_shared) x.x = nullptr;  // the sum over ranks adds it
  if (model.has_own_sequences)
    plan.rms_norm(stream, {norm, T, nullptr, work.normed, {}, image_rows, parts.own_rows});
  else if (plan.has_norms(T) && (index == 0 || !sums_leave_norms(model, plan, work, T)))
    plan.rms_norm(stream, {norm, T, work.x, work.normed, {}, image_rows});
  plan.qkv(stream, {norm, work.normed, layer.qkv, layer.qkv_bias, T, work.qkv_parts, image_rows,
                    work.segment_sums, pages_ahead(config, plan.target(), in, pages, T)});
  if (!shape.writes_kv)
    plan.append(stream, {in, work.qkv_parts, plan.leaves_parts(T), T, Nq, Nkv, rope, pages,
                         shape.num_tiles > 0 ? work.attended : nullptr, image_rows});
  const int max_chunks = chunks_of(config, layer, shape);
  attend(config, layer, plan, work, shape, stream,
         {in, work.qkv_parts, plan.leaves_parts(T), T, Nq, Nkv, rope, pages, /*window=*/0, layer.sinks,
          shape.writes_kv,
          /*first_row=*/0, max_chunks, nullptr, nullptr, work.attended, image_rows});
  plan.project(stream, {work.attended, Nq * config.head_dim, x, layer.o, layer.o_bias, T, work.project_parts,
                        image_rows, work.segment_sums, max_chunks});
}

}  // namespace

void run_embed(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
               Stream stream, const MadeDrafts& last_drafts) {
  plan.embed(stream, shape.num_tokens,
             {work.exchange, work.input, model.weights.embedding, model.config.hidden, work.x, work.step,
              work.embed_ticket, work.results, last_drafts});
}

void run_half_layer(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                    int half, Stream stream, const Tap& tap) {
  const auto layer = static_cast<size_t>(half / 2);
  if (half % 2 == 0) return attention(model, layer, plan, work, shape, stream);
  const NormInput norm{stream_in_parts(model, plan, work, shape.num_tokens),
                       model.weights.layers[layer].mlp_norm, model.config.rms_eps};
  experts(model, layer, norm, plan, work, shape.num_tokens, stream);
  if (tap) tap(layer, stream_in(model.config, work, /*with_experts=*/true));
}

HalfOutput output_of_half(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                          int half) {
  const int num_tokens = shape.num_tokens, num_projected = shape.num_attention_rows();
  const auto H = static_cast<size_t>(model.config.hidden);
  const auto layer = static_cast<size_t>(half / 2);
  const int K = model.config.experts_per_token;
  const bool leaves_norm = sums_leave_norms(model, plan, work, num_tokens);
  const int image_rows = image_rows_of(plan, work, num_tokens);
  if (half % 2 == 0)
    return {Operation::kProject,
            work.project_parts,
            plan.leaves_parts(num_projected) ? 2 : 1,
            static_cast<size_t>(num_projected) * H,
            H,
            work.x,
            sum_behind_attention(model, plan, work, num_tokens),
            leaves_norm ? model.weights.layers[layer].mlp_norm : nullptr,
            image_rows,
            nullptr,
            model.has_own_sequences ? parts_of(work.input, shape).own_of_rows : nullptr};
  const bool is_last = half + 1 == num_halves(model);  // behind it all ranks unembed rows of x
  return {Operation::kExpertsDown,
          work.experts_out,
          K,
          H,
          static_cast<size_t>(K) * H,
          work.x,
          work.x,
          leaves_norm && !is_last && !model.has_own_sequences ? model.weights.layers[layer + 1].attention_norm
                                                              : nullptr,
          image_rows,
          model.config.own_experts ? work.pair_weights : nullptr,
          nullptr};
}

void run_unembed(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                 int first, int count, Stream stream) {
  const InputParts in = parts_of(work.input, shape);
  const ResidualInput left = stream_in(model.config, work, /*with_experts=*/!model.is_shared);
  const NormInput norm{left, model.weights.final_norm, model.config.rms_eps};
  const int* rows = in.output_rows + first;
  const int image_rows = plan.unembeds_image(count) ? work.image_rows : 0;
  if (plan.unembeds_normed(count))  // of these rows alone
    plan.rms_norm(stream, {norm, count, nullptr, work.normed, {}, image_rows, rows});
  plan.unembed(stream,
               {norm, rows, count, model.weights.unembedding, model.logits + model.weights.first_of_vocab,
                work.normed, image_rows, model.config.vocab, work.unembed_deals});
}

void run_sample(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                int first, int count, Stream stream) {
  const InputParts in = parts_of(work.input, shape);
  plan.sample(stream, count,
              {in.sample + first, in.rows, model.logits, model.config.vocab, shape.are_greedy, work.best,
               work.sample_tickets, work.results + first, work.step, work.exchange, first});
}

void run_keep_drafts(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                     Stream stream) {
  const InputParts in = parts_of(work.input, shape);
  keep_drafts({stream, plan.target()}, shape.num_runs, model.kv.num_layers(),
              {in.draft_runs, in.choices(work.results), in.step(), model.kv.on_device(),
               model.config.num_kv_heads, work.step, work.exchange});
}

}  // namespace nibble::cuda
