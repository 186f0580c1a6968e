#include "backend/cuda/recipe.h"

namespace nibble::cuda {
namespace {

bool routes_with_experts(const KernelRow& route) {
  return std::holds_alternative<Launch<RouteAndExpertsUpArgs>>(route.launcher);
}

ActivationLayout layout_of(const KernelRow& row) {
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

// The sum over ranks may take the place of x. Where kernels compute norms for themselves, those that read x write it as well, so the sum is
// left where project left its own. With sequences of their own ranks have other rows there.
StreamIn stream_after_attention(const Sharing& sharing, NormIn experts_norm) {
  if (!sharing.is_shared) return StreamIn::kProjectParts;
  if (experts_norm != NormIn::kReader) return StreamIn::kX;
  return sharing.has_own_sequences ? StreamIn::kExpertsOut : StreamIn::kProjectParts;
}

// The last pages of each row of a full layer, 16 MB in all: attention's CTAs request 17 MB at once on a Hopper, whose L2 has 50. Not
// measured on other chips.
void plan_pages_ahead(const Plan& plan, const Config& config, StepRecipe& to) {
  constexpr int kBytes{16 << 20};
  if (plan.target().family != Family::kSm90) return;
  const Format format = plan.row(Operation::kAttend, 1).weights;
  to.ahead_page_bytes = 2 * config.num_kv_heads * kPagePositions *
                        static_cast<int>(num_bytes(format, static_cast<size_t>(config.head_dim)));
  to.num_pages_ahead = kBytes / to.ahead_page_bytes / to.rows.num_attention_rows;
}

}  // namespace

StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows) {
  const int T = rows.num_tokens;
  const KernelRow &qkv = plan.row(Operation::kQkv, rows.num_attention_rows),
                  &route = plan.row(Operation::kRoute, T), &experts_up = plan.row(Operation::kExpertsUp, T);
  // Block-scaled formats of a norm are made from the whole x, which a rank has after the sum.
  const bool sums_norm = sharing.sums_can_norm && !plan.prompt_activations();
  StepRecipe recipe;
  recipe.rows = rows;
  recipe.attention_norm = attention_norm(qkv, sharing, sums_norm);
  recipe.first_attention_norm =
      recipe.attention_norm == NormIn::kAllReduce ? NormIn::kOwnLaunch : recipe.attention_norm;
  recipe.gathers_own_rows = sharing.has_own_sequences;
  recipe.attention_activations = layout_of(qkv);
  recipe.num_parts = qkv.pass.leaves_parts ? 2 : 1;
  recipe.experts_norm = experts_norm(route, T, sums_norm);
  recipe.stream_after_attention = stream_after_attention(sharing, recipe.experts_norm);
  recipe.num_stream_parts = sharing.is_shared ? 1 : recipe.num_parts;
  recipe.project_adds_stream = recipe.reader_adds_experts = !sharing.is_shared;
  recipe.expert_activations = layout_of(experts_up);
  recipe.routing = routing_by(route, T, config.experts_per_token);
  recipe.group_size = route.pass.columns;
  recipe.max_groups = max_num_groups(T, config.experts().count, config.experts_per_token, recipe.group_size);
  plan_pages_ahead(plan, config, recipe);
  return recipe;
}

UnembedRecipe unembed_recipe(const Plan& plan, int num_rows) {
  const KernelRow& unembed = plan.row(Operation::kUnembed, num_rows);
  return {unembed.pass.takes_norm ? NormIn::kOwnLaunch : NormIn::kReader, layout_of(unembed)};
}

}  // namespace nibble::cuda
