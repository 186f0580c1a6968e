// Asks the model a question after a benchmark, because speed does not show that kernels are correct.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "core/text/json.h"
#include "setup/model/model.h"
#include "setup/model/places.h"

namespace nibble::cli {

inline constexpr std::string_view kCoherenceQuestion{"What is 17 + 25?"};
inline constexpr int kCoherencePositions{256};  // positions of the question and its answer
inline constexpr int kCoherenceTokens{96};      // maximum tokens of the answer

struct Coherence {
  std::optional<std::string> answer{};  // nullopt: not asked
  std::string reason{};                 // reason why the question was not asked
};

// Whether the answer has the right number. A wrong number does not prove a fault: small models make mistakes.
bool is_right(std::string_view answer);

// Asks the question with temperature 0, in up to kCoherencePositions positions of the backend's cache. Does
// not ask if weights are random or lack a vocabulary.
Coherence ask(Backend& backend, const BackendOptions& room, const Model& model, const Places& places);

// Returns a line of a Markdown list; empty without answer and reason.
std::string coherence_line(const Coherence& coherence);
Json to_json(const Coherence& coherence);

}  // namespace nibble::cli
