#include "backend/cuda/recipe_text.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "backend/cuda/dense/launch.h"
#include "backend/cuda/experts/launch.h"

namespace nibble::cuda {
namespace {

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
