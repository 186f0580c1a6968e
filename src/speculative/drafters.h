// The table of drafters. A drafter is a file of this folder and a row.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "speculative/drafter.h"
#include "speculative/head.h"
#include "speculative/model.h"
#include "speculative/ngram.h"
#include "speculative/prediction.h"
#include "speculative/suffix.h"

namespace nibble::speculative {

// Drafters are made of these.
struct DrafterSources {
  const Prediction* prediction{nullptr};  // what the client expects the answer to be; null: nothing
  NgramLengths ngram{};
  const FinishedTexts* finished{nullptr};
  DraftModel* model{nullptr};     // null: there is none
  int topk{1};                    // tokens for one place, at most
  std::string_view cache_salt{};  // of the request
};
// Null: the drafter has nothing to say to this request.
using MakeDrafter = std::function<std::unique_ptr<Drafter>(const DrafterSources& sources)>;

struct DrafterRow {
  std::string_view name;  // --speculate takes it
  std::unique_ptr<Drafter> (*make)(const DrafterSources& sources);
  bool by_request;  // takes part wherever a request asks for it, and has no name as an option
};
// The drafter for which the backend needs a draft head.
inline constexpr std::string_view kHeadDrafter{"eagle3"};
// The drafter for which the engine needs a second backend.
inline constexpr std::string_view kModelDrafter{"model"};
std::span<const DrafterRow> drafter_table();

}  // namespace nibble::speculative
