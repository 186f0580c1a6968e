#include "backend/cuda/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/pipeline/row_limits.h"

namespace nibble::cuda {
namespace {

bool routes_with_experts(const KernelRow& route) {
  return std::holds_alternative<Launch<RouteAndExpertsUpArgs>>(route.launcher);
}

ActivationLayout activations_of(const KernelRow& row) {
  if (block_format_of(row)) return ActivationLayout::kBlocks;
  return row.pass.takes_image ? ActivationLayout::kImage : ActivationLayout::kRows;
}

NormIn attention_norm(const KernelRow& qkv, const Sharing& sharing, bool sums_norm) {
  if (!qkv.pass.takes_norm) return NormIn::kReader;
  return sums_norm && !sharing.has_own_sequences ? NormIn::kAllReduce : NormIn::kOwnLaunch;
}

NormIn experts_norm(const KernelRow& route, int num_tokens, bool sums_norm) {
  if (!route.pass.takes_norm) return NormIn::kReader;
  if (sums_norm) return NormIn::kAllReduce;
  return num_tokens <= kRouterNorms && route.pass.makes_norm ? NormIn::kRouter : NormIn::kOwnLaunch;
}

RoutingBy routing_by(const KernelRow& route, int num_tokens, int experts_per_token) {
  if (routes_with_experts(route)) return RoutingBy::kSameLaunch;
  return are_matched(num_tokens, experts_per_token, route.pass.columns, route.pass.takes_image)
             ? RoutingBy::kMailbox
             : RoutingBy::kGroups;
}

// Returns the buffer in which the residual stream is after attention. If ranks share the model, the
// all-reduce usually writes the stream to x. This is impossible if the next kernel computes the norm: some of
// that kernel's CTAs write x while others still read the stream, so the stream must be in another buffer. The
// all-reduce then writes the stream over project's output or, if project computed only the rank's own rows,
// over the experts' output.
StreamIn stream_after_attention(const Sharing& sharing, NormIn experts_norm) {
  if (!sharing.is_shared) return StreamIn::kProjectParts;
  if (experts_norm != NormIn::kReader) return StreamIn::kX;
  return sharing.has_own_sequences ? StreamIn::kExpertsOut : StreamIn::kProjectParts;
}

// On Hopper, makes qkv of full-attention layers prefetch the last pages of each row to L2, 16 MB in all. That
// is about as much as attention's CTAs load at once (17 MB), and fits in the L2 of 50 MB. On other chips,
// where the prefetch was not measured, qkv does not prefetch.
void plan_pages_ahead(const Plan& plan, const Config& config, StepRecipe& to) {
  constexpr int kBytes{16 << 20};
  if (plan.target().family != Family::kSm90) return;
  const Format format = plan.row(Operation::kAttend, 1).weights;
  to.ahead_page_bytes =
      2 * config.num_kv_heads * kPagePositions * static_cast<int>(num_bytes(format, config.head_dim));
  to.num_pages_ahead = kBytes / to.ahead_page_bytes / to.rows.num_attention_rows;
}

// Returns whether the kernel streams weights and multiplies them by few columns (dense/stream.cu,
// experts/stream.cu).
bool streams(const KernelRow& row) { return row.pass.columns == kMaxColumns && !row.pass.takes_image; }

void plan_launches(const Plan& plan, const Config& config, StepRecipe& to) {
  const Target& target = plan.target();
  const int T = to.rows.num_tokens, num_attended = to.rows.num_attention_rows, H = config.hidden,
            q = config.num_heads * config.head_dim, K = config.experts_per_token;
  const KernelRow &qkv = plan.row(Operation::kQkv, num_attended),
                  &project = plan.row(Operation::kProject, num_attended);
  if (streams(qkv))
    to.qkv = dense_launch(
        target, make_strips(layout_of(qkv.weights), q + 2 * config.num_kv_heads * config.head_dim, H), H,
        num_attended);
  if (streams(project))
    to.project = dense_launch(target, make_strips(layout_of(project.weights), H, q), q, num_attended);

  const Strips up = make_strips(Layout::kMxfp4, 2 * config.intermediate, H),
               down = make_strips(Layout::kMxfp4, H, config.intermediate);
  if (streams(plan.row(Operation::kExpertsUp, T)))
    to.experts_up = to.routing == RoutingBy::kSameLaunch && T == 1
                        ? experts_up_launch_of_one(target, up, H, K)
                        : experts_up_launch(target, up, H, std::min(to.group_size, T),
                                            to.routing == RoutingBy::kSameLaunch ? T * K : to.max_groups);
  if (streams(plan.row(Operation::kExpertsDown, T)))
    to.experts_down = experts_down_launch(target, down, config.intermediate,
                                          {T, to.group_size, to.max_groups, to.routing != RoutingBy::kGroups,
                                           config.experts().count == config.num_experts});
}

std::string norm_text(NormIn norm, std::string_view readers) {
  switch (norm) {
    case NormIn::kReader:
      return fmt::format("computed by {}", readers);
    case NormIn::kOwnLaunch:
      return "a launch of its own, rms_norm";
    case NormIn::kRouter:
      return "computed by the router's launch";
    case NormIn::kAllReduce:
      break;
  }
  return "left by the sum over ranks";
}

std::string_view layout_text(ActivationLayout layout) {
  switch (layout) {
    case ActivationLayout::kRows:
      return "rows of BF16";
    case ActivationLayout::kImage:
      return "swizzled image of BF16";
    case ActivationLayout::kBlocks:
      break;
  }
  return "rows of blocks with scales";
}

std::string_view routing_text(RoutingBy routing) {
  switch (routing) {
    case RoutingBy::kSameLaunch:
      return "in one launch with experts-up; mailbox to experts-down";
    case RoutingBy::kMailbox:
      return "experts-up ranks the logits; mailbox to experts-down";
    case RoutingBy::kGroups:
      break;
  }
  return "groups in memory";
}

std::string_view stream_text(StreamIn stream) {
  switch (stream) {
    case StreamIn::kX:
      return "x";
    case StreamIn::kProjectParts:
      return "the output of project";
    case StreamIn::kExpertsOut:
      break;
  }
  return "the memory of the experts' outputs";
}

std::string stream_shape_text(const StreamShape& shape) {
  return fmt::format("{} warps, rings of {} slots, {} columns per pass", shape.of.warps, shape.of.slots,
                     shape.columns);
}
std::string dense_text(const DenseLaunch& launch) {
  return fmt::format("{} CTAs, {}{}", launch.num_ctas, stream_shape_text(launch.stream),
                     launch.num_passes == 1 ? "" : fmt::format(", {} passes", launch.num_passes));
}

std::string pages_text(const StepRecipe& recipe) {
  if (recipe.num_pages_ahead == 0) return "none";
  return fmt::format("up to {} of {} KB for each row of a full layer", recipe.num_pages_ahead,
                     recipe.ahead_page_bytes >> 10);
}

std::string down_text(const ExpertsDownLaunch& launch) {
  const std::string_view kind = launch.is_single ? (launch.has_all ? ", a slot for each expert"
                                                                   : ", a slot for each expert of the rank")
                                : launch.has_two ? ", two groups in shared memory"
                                                 : ", one group in shared memory";
  return fmt::format("{} CTAs, {}{}", launch.grid.x * launch.grid.y, stream_shape_text(launch.stream), kind);
}

}  // namespace

StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows) {
  const int T = rows.num_tokens;
  const KernelRow &qkv = plan.row(Operation::kQkv, rows.num_attention_rows),
                  &project = plan.row(Operation::kProject, rows.num_attention_rows),
                  &route = plan.row(Operation::kRoute, T), &experts_up = plan.row(Operation::kExpertsUp, T);
  // With block-scaled activations, rms_norm computes the norms: all-reduces cannot write that format.
  const bool sums_norm = sharing.sums_can_norm && !plan.prompt_activations();
  StepRecipe recipe;
  recipe.rows = rows;
  recipe.attention_norm = attention_norm(qkv, sharing, sums_norm);
  recipe.first_attention_norm =
      recipe.attention_norm == NormIn::kAllReduce ? NormIn::kOwnLaunch : recipe.attention_norm;
  recipe.gathers_own_rows = sharing.has_own_sequences;
  recipe.qkv_activations = activations_of(qkv);
  recipe.attended_activations = project.pass.takes_image ? ActivationLayout::kImage : ActivationLayout::kRows;
  recipe.project_quantises = block_format_of(project).has_value();
  recipe.num_parts = qkv.pass.leaves_parts ? 2 : 1;
  recipe.experts_norm = experts_norm(route, T, sums_norm);
  recipe.stream_after_attention = stream_after_attention(sharing, recipe.experts_norm);
  recipe.num_stream_parts = sharing.is_shared ? 1 : recipe.num_parts;
  recipe.project_adds_stream = recipe.reader_adds_experts = !sharing.is_shared;
  recipe.expert_activations = activations_of(experts_up);
  recipe.routing = routing_by(route, T, config.experts_per_token);
  recipe.group_size = route.pass.columns;
  recipe.max_groups = max_num_groups(T, config.experts().count, config.experts_per_token, recipe.group_size);
  plan_pages_ahead(plan, config, recipe);
  plan_launches(plan, config, recipe);
  return recipe;
}

UnembedRecipe unembed_recipe(const Plan& plan, int vocab, int hidden, int num_rows) {
  const KernelRow& unembed = plan.row(Operation::kUnembed, num_rows);
  UnembedRecipe recipe{unembed.pass.takes_norm ? NormIn::kOwnLaunch : NormIn::kReader,
                       activations_of(unembed), std::nullopt};
  if (streams(unembed)) {
    const Strips weights = make_strips(layout_of(unembed.weights), vocab, hidden);
    recipe.launch = unembed.pass.deals_out ? dealt_launch(plan.target(), weights, hidden, num_rows)
                                           : dense_launch(plan.target(), weights, hidden, num_rows);
  }
  return recipe;
}

std::vector<StepFact> describe(const StepRecipe& recipe, const UnembedRecipe& unembed) {
  std::vector<StepFact> facts;
  const auto add = [&](const char* name, std::string_view value) {
    facts.push_back({name, std::string(value)});
  };
  std::string attention_norm = norm_text(recipe.attention_norm, "qkv");
  if (recipe.gathers_own_rows) attention_norm += ", of the rank's own rows";
  if (recipe.first_attention_norm != recipe.attention_norm)
    attention_norm += "; in the first layer " + norm_text(recipe.first_attention_norm, "qkv");
  add("rows of attention", fmt::to_string(recipe.rows.num_attention_rows));
  add("norm before attention", attention_norm);
  add("activations of attention", layout_text(recipe.qkv_activations));
  if (recipe.project_quantises)
    add("activations of project", "rows of blocks with scales, quantised by project");
  add("sums of qkv and project", recipe.num_parts == 2 ? "in two parts" : "whole");
  if (recipe.qkv) add("launch of qkv", dense_text(*recipe.qkv));
  add("pages prefetched by qkv", pages_text(recipe));
  if (recipe.project) add("launch of project", dense_text(*recipe.project));
  add("stream after attention", stream_text(recipe.stream_after_attention));
  add("norm before experts", norm_text(recipe.experts_norm, "the router's launch"));
  add("routing", routing_text(recipe.routing));
  add("groups", fmt::format("up to {} pairs, at most {} groups", recipe.group_size, recipe.max_groups));
  add("activations of experts", layout_text(recipe.expert_activations));
  if (recipe.experts_up)
    add("launch of experts-up",
        fmt::format("{} CTAs, {}", recipe.experts_up->grid.x * recipe.experts_up->grid.y,
                    stream_shape_text(recipe.experts_up->stream)));
  if (recipe.experts_down) add("launch of experts-down", down_text(*recipe.experts_down));
  add("norm before logits", norm_text(unembed.norm, "unembed"));
  add("activations of logits", layout_text(unembed.activations));
  if (unembed.launch) add("launch of logits", dense_text(*unembed.launch));
  return facts;
}

}  // namespace nibble::cuda
