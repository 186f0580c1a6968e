#include "speculative/drafters.h"

namespace nibble::speculative {
namespace {

std::unique_ptr<Drafter> make_prediction(const DrafterSources& sources) {
  if (!sources.prediction || sources.prediction->text.empty()) return nullptr;
  return std::make_unique<PredictionDrafter>(*sources.prediction);
}
std::unique_ptr<Drafter> make_suffix(const DrafterSources& sources) {
  return std::make_unique<SuffixDrafter>(*sources.finished, sources.topk);
}
std::unique_ptr<Drafter> make_eagle3(const DrafterSources&) { return std::make_unique<HeadDrafter>(); }
std::unique_ptr<Drafter> make_model(const DrafterSources& sources) {
  if (!sources.model) return nullptr;
  return std::make_unique<ModelDrafter>(*sources.model, sources.cache_salt);
}
std::unique_ptr<Drafter> make_ngram(const DrafterSources& sources) {
  return std::make_unique<NgramDrafter>(sources.ngram);
}

// Earlier rows are preferred if several drafters are expected to do equally well.
constexpr DrafterRow kDrafterTable[] = {
    {"prediction", &make_prediction, true}, {"suffix", &make_suffix, false},
    {"ngram", &make_ngram, false},          {kHeadDrafter, &make_eagle3, false},
    {kModelDrafter, &make_model, false},
};

}  // namespace

std::span<const DrafterRow> drafter_table() { return kDrafterTable; }

}  // namespace nibble::speculative
