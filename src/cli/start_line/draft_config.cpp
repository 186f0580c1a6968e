#include "cli/start_line/draft_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/start_line/values.h"
#include "core/text/json_text.h"
namespace nibble::cli {

using nlohmann::json;

namespace {

constexpr const char* kNumRows{"num_speculative_tokens + 1"};

}  // namespace

void DraftConfig::add(const std::string& flag, const json& members) {
  flags_.push_back(flag);
  config_.update(members);
}

std::string DraftConfig::flags() const { return fmt::format("{}", fmt::join(flags_, ", ")); }

// Returns the JSON. SGLang's --speculative-num-draft-tokens is the number of drafted tokens plus 1, for the
// token that they follow. If drafts form a chain, not a tree, SGLang ignores this flag where the number of
// steps is set.
std::string DraftConfig::text() const {
  const bool is_ngram = config_.value("method", json()) == "ngram";
  const bool is_tree = config_.value("topk", json(1)) != json(1);
  json config = json::object();
  for (const auto& [key, value] : config_.items())
    if (key != kNumRows && !(is_ngram && key == "topk")) config[key] = value;
  const json num_rows = config_.value(kNumRows, json());
  if (num_rows.is_number_integer() && (is_tree || !config.contains("num_speculative_tokens")))
    config["num_speculative_tokens"] = num_rows.get<int64_t>() - 1;
  return json_text(config);
}

}  // namespace nibble::cli
