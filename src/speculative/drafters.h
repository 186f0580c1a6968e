// The table of drafters. A new drafter is a file in this folder and a row of the table.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "speculative/drafter.h"
#include "speculative/head.h"
#include "speculative/model.h"
#include "speculative/ngram.h"
#include "speculative/prediction.h"
#include "speculative/suffix.h"

namespace nibble::speculative {

struct DrafterSources {
  const Prediction* prediction{nullptr};  // the answer that the client expects; null: no prediction
  NgramLengths ngram{};
  const FinishedTexts* finished{nullptr};
  DraftModel* model{nullptr};     // null: no draft model
  int topk{1};                    // maximum number of tokens proposed for one position
  std::string_view cache_salt{};  // only finished answers of this salt are used
};
// Makes a drafter; null if it can propose nothing for this request.
using MakeDrafter = std::function<std::unique_ptr<Drafter>(const DrafterSources& sources)>;

struct DrafterRow {
  std::string_view name;  // name in the option --speculate
  std::unique_ptr<Drafter> (*make)(const DrafterSources& sources);
  bool by_request;  // used for each request with a prediction; not a name in --speculate
};
inline constexpr std::string_view kHeadDrafter{"eagle3"};  // needs a draft head in the backend
inline constexpr std::string_view kModelDrafter{"model"};  // needs a second backend in the engine
std::span<const DrafterRow> drafter_table();

}  // namespace nibble::speculative
