#include "backend/cuda/operations.h"

#include <algorithm>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/attention/keep_drafts.h"
#include "backend/cuda/dense/adapters.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/route/args.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

// Launches the kernel that the plan has for an operation on `num_rows` rows (for attention: rows of a
// sequence). `args`: arguments of KernelRow::launch().
template <typename... Args>
void launch(const Step& step, Operation operation, int num_rows, const Args&... args) {
  step.plan.row(operation, num_rows).launch({step.stream, step.plan.target()}, args...);
}

const DeviceLayer& layer_of(const Step& step, size_t layer) { return step.model.weights.layers[layer]; }

Activations of_experts(const Step& step, const ActivationRoom& room) {
  return room.in(step.recipe.expert_activations);
}
// The next two functions return where rms_norm stores its result for a kernel that reads `layout`:
// norm_in_bf16() returns the buffer for bfloat16 numbers, norm_in_blocks() the buffer for block-scaled
// numbers. If `layout` is kBlocks, rms_norm stores both, because the router reads bfloat16 rows. Otherwise
// norm_in_blocks() returns no buffer.
Activations norm_in_bf16(const Step& step, ActivationLayout layout) {
  return step.work.normed.in(layout == ActivationLayout::kBlocks ? ActivationLayout::kRows : layout);
}
BlockRows norm_in_blocks(const Step& step, ActivationLayout layout) {
  return layout == ActivationLayout::kBlocks ? step.work.normed.blocks : BlockRows{};
}

// Returns the residual stream: x and, if `with_experts`, the experts' outputs. The kernel that reads the
// stream adds them to x.
ResidualInput stream(const Step& step, bool with_experts) {
  return {.x = step.work.x,
          .experts = with_experts ? step.work.experts_out : nullptr,
          .num_experts = step.model.config.experts_per_token,
          .hidden = step.model.config.hidden};
}
ResidualInput stream_before_attention(const Step& step, size_t layer) {
  return stream(step, layer > 0 && step.recipe.reader_adds_experts);
}
NormInput attention_norm(const Step& step, size_t layer) {
  return {stream_before_attention(step, layer), layer_of(step, layer).attention_norm,
          step.model.config.rms_eps};
}

float* after_attention(const Step& step) {
  const StreamIn stream = step.recipe.stream_after_attention;
  return stream == StreamIn::kX            ? step.work.x
         : stream == StreamIn::kExpertsOut ? step.work.experts_out
                                           : step.work.project_parts;
}
NormInput experts_norm(const Step& step, size_t layer) {
  return {stream_after_attention(step), layer_of(step, layer).mlp_norm, step.model.config.rms_eps};
}

RopeInput rope_of(const Step& step) { return {step.work.rope_frequencies, step.work.rope_concentration}; }

// Returns the number of chunks (8 pages each) in the longest context of the step's rows. In a sliding layer,
// only the pages of the window count.
int chunks_of(const Step& step, size_t layer) {
  if (layer_of(step, layer).kind != LayerKind::kSliding) return step.shape.full_chunks;
  const int most_pages = (step.model.config.window + kPagePositions - 2) / kPagePositions + 1;
  return std::min(step.shape.full_chunks, chunks_for(most_pages));
}

PagesAhead pages_ahead(const Step& step, const LayerPages& pages) {
  const StepRecipe& recipe = step.recipe;
  if (pages.is_sliding || recipe.ahead_page_bytes == 0) return {};
  return {parts_of(step.work.input, step.shape).step(), pages, recipe.ahead_page_bytes,
          recipe.num_pages_ahead};
}

UpWeights up_of(const Step& step, size_t layer) {
  const Config& config = step.model.config;
  return {layer_of(step, layer).up, layer_of(step, layer).up_bias, config.hidden, config.intermediate,
          config.swiglu_limit};
}

Groups groups_of(const Step& step) {
  const Workspace& work = step.work;
  return {step.recipe.group_size, work.group_count,  work.group_expert,   work.group_pairs_count,
          work.group_pairs,       work.pair_weights, work.group_image_row};
}

RoutingMailbox mailbox_of(const Step& step, size_t layer) {
  if (step.recipe.routing == RoutingBy::kGroups) return {};
  const Workspace& work = step.work;
  return {work.routing_sums,
          work.routing_experts,
          work.pair_weights,
          work.step,
          static_cast<uint32_t>(step.model.weights.layers.size()),
          static_cast<uint32_t>(layer)};
}

LaunchContext gpu_of(const Step& step) { return {step.stream, step.plan.target()}; }

// A dense product that a launch has stored in y, and its input x.
struct DenseProduct {
  Operation operation;
  AdapterUpdates matrices;  // without the table of updates
  Activations x;
  float* y;
  int row_stride;
};
// `rows`: the rows of the step that rows of y and x belong to, or null if they are all rows of the step.
void update(const Step& step, const UpdateTable& table, DenseProduct product, const int* rows, int num_rows) {
  if (!table.updates) return;
  product.matrices.updates = table.updates;
  product.matrices.most_rank = table.most_rank;
  add_updates(gpu_of(step), product.operation,
              {product.matrices,
               {parts_of(step.work.input, step.shape).adapters, rows, num_rows},
               product.x,
               step.work.adapter_products,
               product.y,
               product.row_stride});
}
void update(const Step& step, const UpdateTable& table, const DenseProduct& product) {
  update(step, table, product, nullptr, step.shape.num_tokens);
}

// The next functions add the updates of the rows' adapters to the product that an operation has stored.
// update_qkv() and update_route() need the norm in memory, which kLeastAdaptedRows makes sure of.
void update_qkv(const Step& step, size_t layer, const Activations& normed) {
  NIBBLE_CHECK(step.recipe.attention_norm_of(layer) != NormIn::kReader, "no norm for adapters of {} rows",
               step.shape.num_tokens);
  const Config& config = step.model.config;
  const int q = config.num_heads * config.head_dim, kv = config.num_kv_heads * config.head_dim;
  update(step, step.model.adapters->layers[layer].qkv,
         {Operation::kQkv,
          {.count = 3, .num_rows = {q, kv, kv}, .cols = config.hidden},
          normed,
          step.work.qkv_parts,  // the first part, if qkv has stored two
          q + 2 * kv});
}

void update_project(const Step& step, size_t layer) {
  const Config& config = step.model.config;
  update(step, step.model.adapters->layers[layer].o,
         {Operation::kProject,
          {.count = 1, .num_rows = {config.hidden}, .cols = config.num_heads * config.head_dim},
          attended_of(step),
          step.work.project_parts,
          config.hidden});
}

// If the router's launches have also chosen experts, chooses them again by the new logits.
void update_route(const Step& step, size_t layer, const RouteArgs& args) {
  NIBBLE_CHECK(step.recipe.experts_norm != NormIn::kReader, "no norm for adapters of {} rows",
               args.num_tokens);
  const UpdateTable& table = step.model.adapters->layers[layer].router;
  const int num_experts = step.model.config.num_experts;
  update(step, table,
         {Operation::kRoute,
          {.count = 1, .num_rows = {num_experts}, .cols = args.hidden},
          args.normed,
          args.logits,
          num_experts});
  if (table.updates && step.recipe.routing == RoutingBy::kGroups) rank_experts(gpu_of(step), args);
}

// `normed` [args.num_rows, H]: the norm of the output rows, in bfloat16. If unembed has computed the norm in
// its own launch (`is_stored` is false), a launch of rms_norm stores it.
void update_unembed(const Step& step, const UnembedArgs& args, const Activations& normed, bool is_stored) {
  const UpdateTable& table = step.model.adapters->unembedding;
  if (!table.updates) return;
  if (!is_stored) rms_norm(gpu_of(step), {args.norm, args.num_rows, nullptr, normed, {}, args.rows});
  const Config& config = step.model.config;
  update(step, table,
         {Operation::kUnembed,
          {.count = 1, .num_rows = {config.vocab}, .cols = config.hidden},
          normed,
          args.logits,
          args.row_stride},
         args.rows, args.num_rows);
}

}  // namespace

void embed(const Step& step, const MadeDrafts& last_drafts) {
  const Workspace& work = step.work;
  launch(step, Operation::kEmbed, step.shape.num_tokens, step.shape.num_tokens,
         EmbedArgs{work.exchange, work.input, step.model.weights.embedding, step.model.config.hidden, work.x,
                   work.step, work.embed_ticket, work.results, last_drafts});
}

void norm_before_attention(const Step& step, size_t layer) {
  const StepRecipe& recipe = step.recipe;
  if (recipe.attention_norm_of(layer) != NormIn::kOwnLaunch) return;
  RmsNormArgs args{attention_norm(step, layer), recipe.rows.num_attention_rows, step.work.x,
                   norm_in_bf16(step, recipe.qkv_activations), norm_in_blocks(step, recipe.qkv_activations)};
  if (recipe.gathers_own_rows) {
    args.x = nullptr;
    args.rows = parts_of(step.work.input, step.shape).own_rows;
  }
  launch(step, Operation::kRmsNorm, args.num_tokens, args);
}

void qkv(const Step& step, size_t layer) {
  const DeviceLayer& weights = layer_of(step, layer);
  const Workspace& work = step.work;
  launch(step, Operation::kQkv, step.recipe.rows.num_attention_rows,
         QkvArgs{attention_norm(step, layer), work.normed.in(step.recipe.qkv_activations), weights.qkv,
                 weights.qkv_bias, step.recipe.rows.num_attention_rows, work.qkv_parts, work.segment_sums,
                 pages_ahead(step, step.model.kv.pages(layer))});
  if (step.shape.have_adapters) update_qkv(step, layer, norm_in_bf16(step, step.recipe.qkv_activations));
}

void append(const Step& step, size_t layer) {
  if (step.shape.writes_kv) return;  // attend_rows() writes keys and values
  const Config& config = step.model.config;
  const Workspace& work = step.work;
  launch(
      step, Operation::kAppend, step.recipe.rows.num_attention_rows,
      AppendArgs{parts_of(work.input, step.shape).step(), work.qkv_parts, step.recipe.num_parts == 2,
                 step.recipe.rows.num_attention_rows, config.num_heads, config.num_kv_heads, rope_of(step),
                 step.model.kv.pages(layer), step.shape.num_tiles > 0 ? attended_of(step) : Activations()});
}

// Launches attention of tiles (rows of one sequence), and of single rows. Several CTAs share the positions of
// a single row. The CTAs' partial softmaxes need scratch memory, which limits the number of rows per launch.
void attend(const Step& step, size_t layer) {
  const Config& config = step.model.config;
  const Workspace& work = step.work;
  const StepShape& shape = step.shape;
  const DeviceLayer& weights = layer_of(step, layer);
  const StepInput in = parts_of(work.input, shape).step();
  const LayerPages pages = step.model.kv.pages(layer);
  const int window = weights.kind == LayerKind::kSliding ? config.window : 0;
  const Activations attended = attended_of(step);
  if (shape.num_tiles > 0)
    launch(step, Operation::kAttend, kMinTiledRows, shape.num_tiles,
           AttendTilesArgs{in, config.num_heads, config.num_kv_heads, pages, window, weights.sinks, attended,
                           work.tile_totals});
  AttendArgs args{in,
                  work.qkv_parts,
                  step.recipe.num_parts == 2,
                  step.recipe.rows.num_attention_rows,
                  config.num_heads,
                  config.num_kv_heads,
                  rope_of(step),
                  pages,
                  window,
                  weights.sinks,
                  shape.writes_kv,
                  /*first_row=*/0,
                  chunks_of(step, layer),
                  work.attend_partials,
                  work.attend_tickets,
                  attended,
                  work.attend_mailbox,
                  work.mailbox_partials};
  const int rows_per_launch = rows_of_attend(config.num_kv_heads, args.max_chunks);
  for (; args.first_row < shape.num_single_rows; args.first_row += rows_per_launch)
    launch(step, Operation::kAttend, 1, std::min(rows_per_launch, shape.num_single_rows - args.first_row),
           args);
}

// Computes attention's output projection. Stores the residual stream after attention or, if ranks share the
// model, only this rank's terms of that stream, which the all-reduce adds up.
void project(const Step& step, size_t layer) {
  const Config& config = step.model.config;
  const DeviceLayer& weights = layer_of(step, layer);
  // If a separate launch computes the norm before qkv, that launch also adds the experts' outputs to x.
  const bool is_added_up = step.recipe.attention_norm != NormIn::kReader;
  ResidualInput x = is_added_up ? stream(step, /*with_experts=*/false) : stream_before_attention(step, layer);
  if (!step.recipe.project_adds_stream) x.x = nullptr;
  launch(step, Operation::kProject, step.recipe.rows.num_attention_rows,
         ProjectArgs{attended_of(step), config.num_heads * config.head_dim, x, weights.o, weights.o_bias,
                     step.recipe.rows.num_attention_rows, step.work.project_parts, step.work.segment_sums,
                     chunks_of(step, layer)});
  if (step.shape.have_adapters) update_project(step, layer);
}

void norm_before_experts(const Step& step, size_t layer) {
  if (step.recipe.experts_norm != NormIn::kOwnLaunch) return;
  const Workspace& work = step.work;
  launch(step, Operation::kRmsNorm, step.shape.num_tokens,
         RmsNormArgs{experts_norm(step, layer), step.shape.num_tokens, work.x,
                     norm_in_bf16(step, step.recipe.expert_activations),
                     norm_in_blocks(step, step.recipe.expert_activations)});
}

void route(const Step& step, size_t layer) {
  const Config& config = step.model.config;
  const DeviceLayer& weights = layer_of(step, layer);
  const Workspace& work = step.work;
  const int T = step.shape.num_tokens, K = config.experts_per_token;
  if (step.recipe.routing == RoutingBy::kSameLaunch) {
    NIBBLE_CHECK(!step.shape.have_adapters, "the router's logits of {} rows are in no memory", T);
    return launch(step, Operation::kRoute, T,
                  RouteAndExpertsUpArgs{experts_norm(step, layer), weights.router, weights.router_bias, T, K,
                                        config.experts(), work.x, mailbox_of(step, layer), up_of(step, layer),
                                        work.gated.data});
  }
  RouteArgs args{config.hidden,
                 weights.router,
                 weights.router_bias,
                 T,
                 K,
                 config.experts(),
                 norm_in_bf16(step, step.recipe.expert_activations),
                 work.router_logits,
                 work.chosen,
                 work.rank,
                 work.route_ticket,
                 groups_of(step)};
  if (step.recipe.experts_norm == NormIn::kRouter) {
    args.norm = experts_norm(step, layer);
    if (step.recipe.stream_after_attention != StreamIn::kX) args.x = work.x;
  }
  launch(step, Operation::kRoute, T, args);
  if (step.shape.have_adapters) update_route(step, layer, args);
}

void experts_up(const Step& step, size_t layer) {
  if (step.recipe.routing == RoutingBy::kSameLaunch) return;  // route() launches experts_up too
  const Config& config = step.model.config;
  const Workspace& work = step.work;
  launch(step, Operation::kExpertsUp, step.shape.num_tokens,
         ExpertsUpArgs{of_experts(step, work.normed), groups_of(step), step.shape.num_tokens,
                       config.experts_per_token, step.recipe.max_groups, up_of(step, layer),
                       of_experts(step, work.gated), work.gathered, work.router_logits,
                       mailbox_of(step, layer), config.num_experts, config.experts()});
}

void experts_down(const Step& step, size_t layer) {
  const Config& config = step.model.config;
  const DeviceLayer& weights = layer_of(step, layer);
  const Workspace& work = step.work;
  launch(step, Operation::kExpertsDown, step.shape.num_tokens,
         ExpertsDownArgs{of_experts(step, work.gated), groups_of(step), mailbox_of(step, layer),
                         config.experts(), config.num_experts, step.shape.num_tokens,
                         config.experts_per_token, step.recipe.max_groups, config.hidden, config.intermediate,
                         weights.down, weights.down_bias, work.experts_out, work.down_turns});
}

Activations attended_of(const Step& step) { return step.work.attended.in(step.recipe.attended_activations); }

ResidualInput stream_after_attention(const Step& step) {
  ResidualInput r;
  r.x = after_attention(step);
  r.hidden = step.model.config.hidden;
  if (step.recipe.num_stream_parts == 2) r.x_rest = r.x + size_t{1} * step.shape.num_tokens * r.hidden;
  return r;
}

ResidualInput stream_after_layer(const Step& step) { return stream(step, /*with_experts=*/true); }

HalfOutput output_of_half(const Step& step, int half) {
  const Config& config = step.model.config;
  const Workspace& work = step.work;
  const StepRecipe& recipe = step.recipe;
  const size_t H = config.hidden, K = config.experts_per_token;
  const size_t layer = half / 2;
  if (half % 2 == 0)
    return {Operation::kProject,
            {work.project_parts,
             recipe.num_parts,
             recipe.rows.num_attention_rows * H,
             H,
             work.x,
             after_attention(step),
             {recipe.experts_norm == NormIn::kAllReduce ? layer_of(step, layer).mlp_norm : nullptr,
              config.rms_eps, of_experts(step, work.normed).image_rows},
             nullptr,
             recipe.gathers_own_rows ? parts_of(work.input, step.shape).own_of_rows : nullptr}};
  const bool is_last =
      layer + 1 == step.model.weights.layers.size();  // unembed() computes the norm after the last layer
  const bool leaves_norm = !is_last && recipe.attention_norm_of(layer + 1) == NormIn::kAllReduce;
  return {Operation::kExpertsDown,
          {work.experts_out,
           config.experts_per_token,
           H,
           K * H,
           work.x,
           work.x,
           {leaves_norm ? layer_of(step, layer + 1).attention_norm : nullptr, config.rms_eps,
            work.normed.in(recipe.qkv_activations).image_rows},
           config.own_experts ? work.pair_weights : nullptr,
           nullptr}};
}

void unembed(const Step& step, int first, int count) {
  const Workspace& work = step.work;
  const UnembedRecipe recipe =
      unembed_recipe(step.plan, step.model.weights.unembedding.rows, step.model.config.hidden, count);
  const NormInput norm{stream(step, step.recipe.reader_adds_experts), step.model.weights.final_norm,
                       step.model.config.rms_eps};
  const int* rows = parts_of(work.input, step.shape).output_rows + first;
  if (recipe.norm == NormIn::kOwnLaunch)  // computes the norm of only those rows that need logits
    launch(step, Operation::kRmsNorm, count,
           RmsNormArgs{norm, count, nullptr, norm_in_bf16(step, recipe.activations),
                       norm_in_blocks(step, recipe.activations), rows});
  const UnembedArgs args{norm,
                         rows,
                         count,
                         step.model.weights.unembedding,
                         step.model.logits + step.model.weights.first_of_vocab,
                         work.normed.in(recipe.activations),
                         step.model.config.vocab,
                         work.unembed_deals};
  launch(step, Operation::kUnembed, count, args);
  if (step.shape.have_adapters)
    update_unembed(step, args, norm_in_bf16(step, recipe.activations), recipe.norm == NormIn::kOwnLaunch);
}

void sample(const Step& step, int first, int count) {
  const InputParts in = parts_of(step.work.input, step.shape);
  const Workspace& work = step.work;
  launch(step, Operation::kSample, count, count,
         SampleArgs{in.sample + first, in.rows, step.model.logits, step.model.config.vocab,
                    step.shape.are_greedy, work.best, work.sample_tickets, work.results + first, work.step,
                    work.exchange, first});
}

void keep_drafts(const Step& step) {
  const InputParts in = parts_of(step.work.input, step.shape);
  const KvStorage& kv = step.model.kv;
  keep_drafts({step.stream, step.plan.target()}, step.shape.num_runs, kv.num_layers(),
              {in.draft_runs, in.choices(step.work.results), in.step(), kv.on_device(),
               step.model.config.num_kv_heads, step.work.step, step.work.exchange});
}

}  // namespace nibble::cuda
