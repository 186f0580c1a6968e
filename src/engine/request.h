// What may be asked of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/token.h"
#include "model/batch.h"

namespace nibble {

enum class RequestId : uint64_t {};

// What is accepted beside the ranges that the formulas themselves demand. The first two are those of OpenAI's API.
inline constexpr float kMaxPenalty{2};  // presence and frequency, either sign
inline constexpr float kMaxLogitBias{100};
inline constexpr size_t kMaxStopStrings{16};

struct StopParams {
  int max_tokens{0};              // 0: as many as the context and the KV cache have room for
  std::vector<TokenId> tokens{};  // the chosen one ends the text and is reported, but adds no text
  std::vector<std::string>
      strings{};  // the text ends before the first of them, also across tokens: engine/stop.h
};

struct Request {
  std::vector<TokenId> prompt{};  // at least one token
  SampleParams sample{};
  StopParams stop{};
};

}  // namespace nibble
