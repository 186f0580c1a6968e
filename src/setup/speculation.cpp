#include "setup/speculation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "harmony/field.h"
#include "harmony/json_text.h"

namespace nibble {
namespace {

using harmony::Field;
using speculative::SpeculationOptions;

// A drafter that was named may draft so many tokens where nobody says how many: few, because every row costs in a mixture of experts.
constexpr int kDraftsByName{5};
constexpr int kMaxLookup{64};

constexpr std::string_view kOfHead{"eagle3="};  // --speculate eagle3=FOLDER

// The drafters with a name in `names`, and those that requests ask for.
SpeculationOptions with_drafters(const std::vector<std::string_view>& names) {
  SpeculationOptions options;
  for (const speculative::DrafterRow& row : speculative::drafter_table())
    if (row.by_request || std::find(names.begin(), names.end(), row.name) != names.end())
      options.drafters.emplace_back(row.make);
  return options;
}

SpeculationOptions named(std::string_view name) {
  SpeculationOptions options = with_drafters({name});
  options.by_cost = false;
  options.max_drafts = kDraftsByName;
  return options;
}

std::optional<int> find_number(const Field& config, const char* key, int most) {
  const std::optional<Field> field = config.find(key);
  if (!field) return {};
  const harmony::Json& value = field->value();
  if (!value.is_number_integer() || value < 1 || value > most)
    field->refuse(fmt::format("a whole number from 1 to {}", most));
  return value.get<int>();
}

// As in vLLM a length that is not given is the other one, or both are 5.
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
  const harmony::Json json = harmony::parse_json(text, "--speculative-config");
  const Field config(json, "--speculative-config");
  const std::string method = config.need_string("method");
  const bool is_head = method == speculative::kHeadDrafter;
  if (method != "ngram" && method != "suffix" && !is_head)
    config.need("method", "").refuse("ngram, suffix or eagle3, which are the methods that nibble has");
  if (method == "ngram")
    config.allow_only({"method", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max"});
  else if (is_head)
    config.allow_only({"method", "num_speculative_tokens", "model"});
  else
    config.allow_only({"method", "num_speculative_tokens"});
  SpeculationOptions options = named(method);
  if (method == "ngram") options.ngram = read_lengths(config);
  if (is_head) {
    options.draft_head = config.need_string("model");
    if (options.draft_head.empty()) config.need("model", "").refuse("the folder of an EAGLE-3 head");
  }
  const int most = is_head ? kMaxDraftsOfHead : speculative::kMaxDrafts;
  options.max_drafts = find_number(config, "num_speculative_tokens", most).value_or(options.max_drafts);
  return options;
}

}  // namespace

SpeculationOptions read_speculation(const Settings& settings) {
  if (settings.speculative_config) {
    if (settings.speculate)
      throw InputError("--speculate {} and --speculative-config are two ways to say one thing: leave one out",
                       *settings.speculate);
    return read_config(*settings.speculative_config);
  }
  const std::string how = settings.speculate.value_or("off");
  if (how == "off") return {};
  if (how == "auto") return with_drafters({"suffix", "ngram"});
  if (how == "suffix" || how == "ngram") return named(how);
  if (!how.starts_with(kOfHead) || how.size() == kOfHead.size())
    throw InputError("--speculate '{}': accepted is one of auto, off, ngram, suffix, eagle3=FOLDER", how);
  SpeculationOptions options = with_drafters({"suffix", "ngram", speculative::kHeadDrafter});
  options.draft_head = how.substr(kOfHead.size());
  return options;
}

void open_draft_head(ResolvedSettings& setup, const Config& config) {
  const std::filesystem::path& folder = setup.speculation.draft_head;
  if (folder.empty()) return;
  setup.options.draft_head = open_draft_head(folder, config);
}

}  // namespace nibble
