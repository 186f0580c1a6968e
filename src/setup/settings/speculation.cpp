#include "setup/settings/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/field.h"
#include "harmony/json_text.h"

namespace nibble {
namespace {

using harmony::Field;
using speculative::SpeculationOptions;

// Drafts per step if the user names a drafter without a number. Few, as each draft may read more experts.
constexpr int kDraftsByName{5};
constexpr int kMaxLookup{64};
// Alternatives per position of a tree whose size the controller sets by cost. A third rarely pays off.
constexpr int kTopkByCost{2};

// Prefixes of --speculate's values eagle3=FOLDER and model=MODEL.
constexpr std::string_view kOfHead{"eagle3="}, kOfModel{"model="};
constexpr std::string_view kMethodOfModel{"draft_model"};        // vLLM's name of the method
constexpr const char* kDraftGpus{"draft_tensor_parallel_size"};  // a field in vLLM's recipes; must be 1

// Returns options with the drafters in `names`, and with those that are used for requests with a prediction.
SpeculationOptions with_drafters(const std::vector<std::string_view>& names) {
  SpeculationOptions options{.topk = kTopkByCost};
  for (const speculative::DrafterRow& row : speculative::drafter_table())
    if (row.by_request || std::ranges::find(names, row.name) != names.end())
      options.drafters.emplace_back(row.make);
  return options;
}

SpeculationOptions named(std::string_view name) {
  SpeculationOptions options = with_drafters({name});
  options.by_cost = false;
  options.max_drafts = kDraftsByName;
  options.topk = 1;
  return options;
}

std::optional<int> find_number(const Field& config, const char* key, int most) {
  const std::optional<Field> field = config.find(key);
  if (!field) return {};
  const Json& value = field->value();
  if (!value.is_number_integer() || value < 1 || value > most)
    field->refuse(fmt::format("a whole number from 1 to {}", most));
  return value.get<int>();
}

// As in vLLM, a missing limit of the n-gram length gets the value of the other limit. If both are missing,
// both are 5.
speculative::NgramLengths read_lengths(const Field& config) {
  const std::optional<int> least = find_number(config, "prompt_lookup_min", kMaxLookup);
  const std::optional<int> most = find_number(config, "prompt_lookup_max", kMaxLookup);
  const speculative::NgramLengths lengths{.least = least.value_or(most.value_or(5)),
                                          .most = most.value_or(least.value_or(5))};
  if (lengths.least > lengths.most)
    config.need("prompt_lookup_min", "").refuse(fmt::format("at most prompt_lookup_max, {}", lengths.most));
  return lengths;
}

SpeculationOptions read_config(const std::string& text) {
  const Json json = harmony::parse_json(text, "--speculative-config");
  const Field config(json, "--speculative-config");
  if (const auto tree = config.find("speculative_token_tree"))
    throw InputError(
        "{} is not supported: no fixed shape of a tree is best for every text. \"topk\" bounds the "
        "alternatives per position, and \"num_speculative_tokens\" the tokens of the tree",
        tree->place());
  const std::string method = config.need_string("method");
  const bool is_head = method == speculative::kHeadDrafter, is_model = method == kMethodOfModel;
  if (method != "ngram" && method != "suffix" && !is_head && !is_model)
    config.need("method", "").refuse("ngram, suffix, eagle3 or draft_model");
  if (method == "ngram")
    config.allow_only({"method", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max"});
  else if (is_head || is_model)
    config.allow_only({"method", "num_speculative_tokens", "topk", "model", kDraftGpus});
  else
    config.allow_only({"method", "num_speculative_tokens", "topk"});
  SpeculationOptions options = named(is_model ? speculative::kModelDrafter : method);
  if (method == "ngram") options.ngram = read_lengths(config);
  if (is_head) {
    options.draft_head = config.need_string("model");
    if (options.draft_head.empty()) config.need("model", "").refuse("the folder of an EAGLE-3 head");
  }
  if (is_model) {
    options.draft_model = config.need_string("model");
    if (options.draft_model.empty()) config.need("model", "").refuse("the name or the path of a model");
  }
  if (const auto num_gpus = config.find(kDraftGpus); num_gpus && num_gpus->value() != 1)
    num_gpus->refuse("1", "drafts are computed on one GPU");
  const int most = is_head || is_model ? kMaxDraftsOfHead : speculative::kMaxDrafts;
  options.max_drafts = find_number(config, "num_speculative_tokens", most).value_or(options.max_drafts);
  options.topk = find_number(config, "topk", speculative::kMaxTopk).value_or(1);
  return options;
}

}  // namespace

SpeculationOptions read_speculation(const Settings& settings) {
  if (settings.speculative_config) {
    if (settings.speculate)
      throw InputError("--speculate {} and --speculative-config exclude each other", *settings.speculate);
    return read_config(*settings.speculative_config);
  }
  const std::string how = settings.speculate.value_or("auto");
  if (how == "off") return {};
  if (how == "auto") return with_drafters({"suffix", "ngram"});
  if (how == "suffix" || how == "ngram") return named(how);
  const auto names_a = [&](std::string_view kind) {
    return how.starts_with(kind) && how.size() > kind.size();
  };
  if (names_a(kOfHead)) {
    SpeculationOptions options = with_drafters({"suffix", "ngram", speculative::kHeadDrafter});
    options.draft_head = how.substr(kOfHead.size());
    return options;
  }
  if (names_a(kOfModel)) {
    SpeculationOptions options = with_drafters({"suffix", "ngram", speculative::kModelDrafter});
    options.draft_model = how.substr(kOfModel.size());
    return options;
  }
  throw InputError("--speculate '{}': expected one of auto, off, ngram, suffix, eagle3=FOLDER, model=MODEL",
                   how);
}

}  // namespace nibble
